#include "stage.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/proc.h"

#define MS UINT64_C(1000000)

/* Against hanging only. Much longer than a busy machine takes for one call. */
static uint64_t guard_ns(void)
{
    const char *text = getenv("HANDOVER_GUARD");

    return (text ? strtoull(text, NULL, 0) : 300) * 1000 * MS;
}

struct stage *stage;
void (*stage_tell)(void);
_Thread_local struct life *self;

void *stage_share(size_t size)
{
    void *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

void stage_open(void)
{
    stage = stage_share(sizeof(*stage));
}

void stage_clear(void)
{
    ck_assert_int_eq(madvise(stage, sizeof(*stage), MADV_REMOVE), 0);
}

uint64_t stage_seed(void)
{
    const char *text = getenv("HANDOVER_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns() % 1000000;

    fprintf(stderr, "HANDOVER_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static double stage_seconds(unsigned brief, unsigned full)
{
    const char *text = getenv("HANDOVER_SECONDS");

    return text ? atof(text) : choose_effort(brief, full);
}

static double seconds;

void stage_run(unsigned least, void (*run_round)(void))
{
    uint32_t fds = npud_ledger().fds;
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), before = 0, after;
    unsigned rounds = 0;

    do {
        run_round();
        npud_await_fds(fds);
        after = proc_usage(npud.pid).anon;
        if (++rounds <= 2)
            before = after;
    } while (rounds < least || now_ns() < end);
    fprintf(stderr, "%u rounds; npud %llu + %llu KiB\n", rounds, (unsigned long long)after >> 10,
            (unsigned long long)(after > before ? after - before : 0) >> 10);
}

int stage_main(const char *name, const TTest *test, unsigned brief, unsigned full)
{
    Suite *suite = suite_create(name);
    TCase *t;

    seconds = stage_seconds(brief, full);
    t = suite_case(suite, "random", 400 + 2 * seconds, npud_setup, npud_teardown);
    tcase_add_test(t, test);
    return run_suite(suite);
}

/* --- on the stage --- */

void life_begin(uint32_t number)
{
    self = &stage->life[number];
    atomic_store(&self->pid, getpid());
    atomic_store(&self->tid, (int32_t)syscall(SYS_gettid));
}

void life_over(void)
{
    atomic_store(&self->over, 1);
}

void life_enters(const char *call, int64_t about, int32_t limit_ms)
{
    atomic_store_explicit(&self->since, now_ns(), memory_order_relaxed);
    atomic_store_explicit(&self->about, about, memory_order_relaxed);
    atomic_store_explicit(&self->limit_ms, limit_ms, memory_order_relaxed);
    atomic_store_explicit(&self->call, call, memory_order_release);
}

aclError life_leaves(aclError r)
{
    atomic_store_explicit(&self->call, NULL, memory_order_release);
    atomic_fetch_add_explicit(&self->calls, 1, memory_order_relaxed);
    return r;
}

bool life_judges(aclError r, const char *what)
{
    HOLDS(r == 0 || (life_ends() && r == ACL_ERROR_RT_SOCKET_CLOSE), "%s: %d: %s", what, r,
          aclGetRecentErrMsg());
    return r == 0;
}

void broke(const char *file, int line, const char *format, ...)
{
    char text[sizeof(stage->wrong)];
    size_t n = (size_t)snprintf(text, sizeof(text),
                                "life %d%s: %s:%d: ", self ? (int)(self - stage->life) : -1,
                                self && life_ends() ? " (its session has ended)" : "", file, line);
    va_list args;

    va_start(args, format);
    vsnprintf(text + n, sizeof(text) - n, format, args);
    va_end(args);
    text[strcspn(text, "\n")] = 0; /* of many recent errors only the last */
    fprintf(stderr, "%s\n", text);
    if (atomic_exchange(&stage->broke, 1) == 0)
        memcpy(stage->wrong, text, sizeof(text));
    _exit(STATUS_BROKE);
}

/* --- players --- */

static int (*main_next)(struct player *p);

static int player_main(int fd, void *arg)
{
    (void)fd;
    alarm(0); /* the director watches over all calls */
    return main_next(arg);
}

void player_start(struct player *p, const char *role, unsigned n, uint64_t seed,
                  int (*main)(struct player *p))
{
    *p = (struct player){.first = atomic_fetch_add(&stage->lives, n), .n = n, .seed = seed};
    ck_assert_uint_le(p->first + n, LIVES);
    for (unsigned i = 0; i < n; i++)
        snprintf(stage->life[p->first + i].role, sizeof(stage->life[0].role), "%s", role);
    main_next = main;
    actor_start(&p->actor, player_main, p);
    for (unsigned i = 0; i < n; i++)
        atomic_store(&stage->life[p->first + i].pid, p->actor.pid);
}

static void player_is_over(struct player *p, pid_t pid, int status)
{
    for (unsigned i = 0; i < p->n; i++)
        atomic_store(&stage->life[p->first + i].over, 1);
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
        !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
        if (!atomic_load(&stage->broke))
            stage_dump();
        ck_abort_msg("process %d (%s) ended with status 0x%x: %s", (int)pid,
                     stage->life[p->first].role, status, stage->wrong);
    }
}

bool player_kill(struct player *p)
{
    pid_t pid = p->actor.pid;
    int status = actor_kill(&p->actor);

    player_is_over(p, pid, status);
    return WIFSIGNALED(status);
}

bool player_left(struct player *p)
{
    pid_t pid = p->actor.pid;
    int status;

    if (!actor_reap_if_ended(&p->actor, &status))
        return false;
    player_is_over(p, pid, status);
    return true;
}

void player_stop(struct player *p, uint64_t until)
{
    p->stopped = true;
    p->until = until;
    for (unsigned i = 0; i < p->n; i++)
        atomic_store(&stage->life[p->first + i].stopped, 1);
    actor_stop(&p->actor);
}

void player_continue(struct player *p)
{
    if (!p->stopped)
        return;
    p->stopped = false;
    for (unsigned i = 0; i < p->n; i++) {
        atomic_store(&stage->life[p->first + i].since, now_ns());
        atomic_store(&stage->life[p->first + i].stopped, 0);
    }
    actor_continue(&p->actor);
}

bool player_end_session(struct player *p)
{
    uint64_t session = npud_session_of(p->actor.pid);
    char words[64];
    int status;

    if (session == 0)
        return false;
    for (unsigned i = 0; i < p->n; i++)
        atomic_store(&stage->life[p->first + i].ending, SESSION_ENDED);
    p->ended = true;
    snprintf(words, sizeof(words), "kill %llu", (unsigned long long)session);
    free(npuctl(words, &status));
    return status == 0;
}

/* --- watching --- */

/* What the kernel says of a thread, in one line. */
static void print_kernel_state(pid_t pid, pid_t tid)
{
    static const char *const files[] = {"wchan", "syscall"};
    char path[64], text[256], state = proc_thread_state(pid, tid);
    FILE *f;

    if (state != '\0')
        fprintf(stderr, " state %c", state);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, files[i]);
        f = fopen(path, "re");
        if (f && fgets(text, sizeof(text), f))
            fprintf(stderr, " %s %.*s", files[i], (int)strcspn(text, "\n"), text);
        if (f)
            fclose(f);
    }
}

static void print_life(uint32_t number)
{
    struct life *l = &stage->life[number];
    const char *call = atomic_load(&l->call);
    uint64_t since = atomic_load(&l->since), now = now_ns();

    fprintf(stderr, "life %u (%s) pid %d tid %d%s%s: %llu calls, %llu moves; ", number, l->role,
            l->pid, l->tid, l->stopped ? " stopped" : "", l->ending ? " session ended" : "",
            (unsigned long long)l->calls, (unsigned long long)l->moves);
    if (call)
        fprintf(stderr, "for %.1f s in %s (about %lld, limit %d ms);",
                since < now ? (double)(now - since) / 1e9 : 0, call, (long long)l->about,
                l->limit_ms);
    else
        fprintf(stderr, "in no call;");
    print_kernel_state(l->pid, l->tid ? l->tid : l->pid);
    fprintf(stderr, "\n");
}

void stage_dump(void)
{
    static const char *const topics[] = {"status", "sessions", "waits",  "queues", "grants",
                                         "routes", "pools",    "events", "streams"};
    uint32_t n = atomic_load(&stage->lives);

    fprintf(stderr, "--- what all that live are doing\n");
    for (uint32_t i = 0; i < n && i < LIVES; i++)
        if (!atomic_load(&stage->life[i].over) && atomic_load(&stage->life[i].pid))
            print_life(i);
    if (stage_tell)
        stage_tell();
    for (unsigned i = 0; i < sizeof(topics) / sizeof(topics[0]); i++) {
        int status;
        char *text = npuctl(topics[i], &status);

        fprintf(stderr, "--- npuctl %s\n%s", topics[i], text);
        free(text);
    }
}

/* A call with a time limit that has long been over. */
static bool is_stuck(const struct life *l, uint64_t now)
{
    int32_t limit_ms = atomic_load(&l->limit_ms);
    uint64_t since = atomic_load(&l->since);

    return !atomic_load(&l->over) && !atomic_load(&l->stopped) && atomic_load(&l->call) &&
           limit_ms != WITHOUT_END && since != 0 && now > since &&
           now - since > guard_ns() + (uint64_t)limit_ms * MS;
}

void stage_look(void)
{
    uint32_t n = atomic_load(&stage->lives);
    uint64_t now = now_ns();

    ck_assert_msg(!atomic_load(&stage->broke), "%s", stage->wrong);
    for (uint32_t i = 0; i < n && i < LIVES; i++)
        if (is_stuck(&stage->life[i], now)) {
            stage_dump();
            ck_abort_msg("life %u (%s) does not come back from %s", i, stage->life[i].role,
                         atomic_load(&stage->life[i].call));
        }
}

static uint64_t moves_of_all(void)
{
    uint32_t n = atomic_load(&stage->lives);
    uint64_t moves = 0;

    for (uint32_t i = 0; i < n && i < LIVES; i++)
        moves += atomic_load(&stage->life[i].moves) + atomic_load(&stage->life[i].over);
    return moves;
}

void stage_await(bool (*holds)(void *arg), void *arg, const char *what)
{
    uint64_t moves = moves_of_all(), moved = now_ns();

    while (!holds(arg)) {
        uint64_t now = now_ns(), n = moves_of_all();

        stage_look();
        if (n != moves) {
            moves = n;
            moved = now;
        }
        if (now - moved > guard_ns()) {
            stage_dump();
            ck_abort_msg("nothing moves any more, and it does not come to this: %s", what);
        }
        stage_rest(1);
    }
}

void players_look_after(struct player *players, unsigned n, void (*left)(struct player *p),
                        void (*start)(unsigned i))
{
    stage_look();
    for (unsigned i = 0; i < n; i++) {
        struct player *p = &players[i];

        if (p->actor.pid && p->stopped && now_ns() >= p->until)
            player_continue(p);
        if (p->actor.pid && !p->stopped && player_left(p) && left)
            left(p);
        if (!p->actor.pid && start)
            start(i);
    }
}

void players_continue(struct player *players, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (players[i].actor.pid)
            player_continue(&players[i]);
}

bool players_are_over(const struct player *players, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (players[i].actor.pid)
            return false;
    return true;
}

void stage_rest(unsigned ms)
{
    poll(NULL, 0, (int)ms);
}
