/*
 * Hostile clients (tests/hostile/hostile.c), each beside a pair of well-behaved ones (victims.c
 * there).
 *
 * For each: no result of the pair changes, and their times do not double. Fairness of that
 * measurement: a hostile client is also a load on the machine, which npud cannot help. So times are
 * compared with those beside an honest load of about the same shape (processes that compute, or
 * that talk to one another), in short slices that alternate. What other work there is on the
 * machine meets both; the ratio tells what npud lets the hostile one do. A result that is too bad
 * is measured anew, twice: noise passes, what npud does wrong stays. make check has no use for the
 * comparison, and leaves it out: a machine that does other things as well cannot judge times.
 *
 * Each hostile process is killed at the end of its slice, in the midst of what it does, and another
 * one, with another seed, begins the next. Afterwards npud must be as it was: in its ledger, its
 * descriptors and its memory; and idle.
 *
 * NPUD_HOSTILE_SECONDS: how long each case goes on (default 0.5, in make check-long 0.8).
 * NPUD_TEST_TABLE: print the table also when all is well. NPUD_HOSTILE_SEED: the seed of the first
 * process of each case. NPUD_HOSTILE_CASE: the number of the one case to run.
 *
 * Skipped under TSan: hostile sessions write into shared memory that only one thread of npud
 * reads; ASan looks at it.
 * Runs long: 24 s.
 */
#include "tests/common/harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "tests/common/effort.h"
#include "tests/common/proc.h"
#include "tests/hostile/hostile.h"
#include "tests/hostile/row.h"
#include "tests/common/raw.h"
#include "tests/common/second_user.h"
#include "tests/hostile/victims.h"
#include "tests/common/need.h"

#define GUARD_NS        (300 * NSEC_PER_SEC) /* against hanging only */
#define SLICES          3                    /* of each load, per measurement */
#define ATTEMPTS        3
#define RATIO_MAX       2.0
#define SLOWDOWN_MAX    2.5                 /* the same, and noise */
#define NOISE_NS        (6 * NSEC_PER_MSEC) /* two turns of the scheduler, for the slowest times */
#define FLOOR_NS        (10 * NSEC_PER_USEC)
#define LONG_REQUEST_NS (50 * NSEC_PER_USEC)
#define MEMORY_MAX      (160u << 20) /* of npud's, beside any of these */
#define FDS_MAX         4500
#define LINES_MAX       40 /* per case and uid, beside one more each second */

/*
 * Of npud's memory, what malloc may keep for the next one. Sanitizers keep what was freed, to see
 * it used.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_KEPT (256u << 20)
#define SANITIZED                                                                                  \
    true /* ten times as slow where it counts: the far end of the times tells nothing */
#else
#define MEMORY_KEPT (8u << 20)
#define SANITIZED   false
#endif

static int table = -1; /* a file that all tests of this program add their line to */

static struct {
    const struct hostile_case *c;
    struct hostile *h; /* shared with the hostile process */
    _Atomic uint32_t *progress;
    uint64_t seed;
    uint64_t peak_memory;
    unsigned peak_fds;
} it;

/* --- what npud uses --- */

static void look_at_npud(void)
{
    struct proc_usage usage = proc_usage(npud.pid);

    /* Its own memory: pages of what clients have allocated, which it maps for them, are theirs. */
    if (usage.anon > it.peak_memory)
        it.peak_memory = usage.anon;
    if (usage.fds > it.peak_fds)
        it.peak_fds = usage.fds;
}

/* With nothing to do it uses no CPU: within some time it is seen to be so. */
static void expect_idle(void)
{
    uint64_t give_up = now_ns() + GUARD_NS, before, used;

    do {
        before = proc_cpu_ns(npud.pid);
        poll(NULL, 0, 20);
        used = proc_cpu_ns(npud.pid) - before;
    } while (used > 0 && now_ns() < give_up);
    ck_assert_msg(used == 0, "npud uses %llu ns of CPU in 20 ms with nothing to do",
                  (unsigned long long)used);
}

static void expect_as_before(unsigned fds, uint64_t memory)
{
    npud_await_fds(fds);
    /* What the heap has free goes back within a second (daemon/base/heap.h). */
    EVENTUALLY(proc_usage(npud.pid).anon <= memory + MEMORY_KEPT, "npud keeps %llu bytes",
               (unsigned long long)(proc_usage(npud.pid).anon - memory));
}

/* --- loads --- */

static int be_hostile(void *arg)
{
    (void)arg;
    alarm(0);
    second_user_become();
    it.c->run(it.h);
    return 1;
}

static int be_honest(void *arg)
{
    (void)arg;
    alarm(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hostile_compare(it.c->shape);
    return 1;
}

/* Until it has done what it is here for, once. */
static void await_progress(pid_t pid)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    int status;

    while (atomic_load(it.progress) == 0) {
        ck_assert_msg(waitpid(pid, &status, WNOHANG) == 0, "hostile process ended: 0x%x", status);
        ck_assert_msg(now_ns() < give_up, "the hostile process gets nowhere");
        victims_work(1);
        look_at_npud();
    }
}

static void hostile_slice(uint32_t ms)
{
    bool spoils = strstr(it.c->name, "spoils");
    pid_t pid;

    atomic_store(it.progress, 0);
    it.h->rng = ++it.seed;
    if (spoils)
        victims_wait_for_spoiled(true);
    pid = child_start_group(be_hostile);
    await_progress(pid);
    victims_phase(PHASE_HOSTILE);
    for (unsigned i = 0; i < 4; i++) {
        victims_work(ms / 4);
        look_at_npud();
    }
    victims_phase(PHASE_NONE);
    ck_assert_msg(waitpid(pid, NULL, WNOHANG) == 0, "hostile process ended by itself");
    child_kill_group(pid);
    npud_await_sessions(2); /* it has seen that the process is gone */
    if (spoils)
        victims_wait_for_spoiled(false);
}

static void honest_slice(uint32_t ms)
{
    pid_t pid = child_start_group(be_honest);

    victims_work(2); /* it has begun by then */
    victims_phase(PHASE_COMPARED);
    victims_work(ms);
    victims_phase(PHASE_NONE);
    child_kill_group(pid);
}

/* --- times --- */

static double read_seconds(void)
{
    const char *text = getenv("NPUD_HOSTILE_SECONDS");

    return text ? atof(text) : choose_effort(5, 8) / 10.0;
}

/*
 * A request waits for the one that npud has just begun: of those that bring it much work, the
 * longest take this long.
 */
static uint64_t floor_of(enum measured kind)
{
    return kind == MEASURED_REQUEST ? FLOOR_NS + 2 * LONG_REQUEST_NS : FLOOR_NS;
}

/* How much longer it takes beside the hostile one. */
static double compute_ratio(enum measured kind, unsigned per_mille, uint64_t tolerance)
{
    uint64_t hostile = victims_time(PHASE_HOSTILE, kind, per_mille);
    uint64_t compared = victims_time(PHASE_COMPARED, kind, per_mille);

    if (hostile < tolerance)
        return 0;
    return compared ? (double)(hostile - tolerance) / (double)compared : 0;
}

/*
 * How much less gets done, all in all: what a few long stalls cost, which the many short times
 * beside them would hide.
 */
static double compute_slowdown(void)
{
    uint32_t n = victims_count(PHASE_HOSTILE, MEASURED_ROUND);

    return n ? (double)victims_count(PHASE_COMPARED, MEASURED_ROUND) / n : 1e9;
}

static bool times_are_good(void)
{
    bool good = SANITIZED || compute_slowdown() <= SLOWDOWN_MAX;

    for (unsigned k = 0; k < MEASURED_KINDS; k++)
        good &= compute_ratio(k, 500, floor_of(k)) <= RATIO_MAX &&
                (SANITIZED || compute_ratio(k, 990, NOISE_NS) <= RATIO_MAX);
    return good;
}

/* A judgement of times needs a machine that does nothing else: it is asked for. */
static bool is_strict(void)
{
    return getenv("NPUD_HOSTILE_STRICT") != NULL;
}

/* If the caller does not ask for the comparison, there is none, and no second attempt. */
static bool wants_comparison(void)
{
    return is_strict() || getenv("NPUD_TEST_TABLE") || choose_effort(0, 1);
}

static void measure_once(uint32_t ms)
{
    for (unsigned i = 0; i < SLICES; i++) {
        if (wants_comparison())
            honest_slice(ms);
        hostile_slice(ms);
    }
}

static bool measure_slices(void)
{
    uint32_t ms = (uint32_t)(read_seconds() * 1000 / (2 * SLICES));
    bool good = false;
    uint64_t give_up;

    for (unsigned i = 0; i < (wants_comparison() ? ATTEMPTS : 1) && !good; i++) {
        victims_forget_times();
        measure_once(ms);
        good = times_are_good();
    }
    /* A machine with much to do may have let none of them work in so short a time. */
    give_up = now_ns() + GUARD_NS;
    while (victims_count(PHASE_HOSTILE, MEASURED_ROUND) == 0 && now_ns() < give_up)
        hostile_slice(ms);
    ck_assert_msg(victims_count(PHASE_HOSTILE, MEASURED_ROUND) > 0, "nothing gets done beside it");
    return good;
}

/* --- the log --- */

struct told {
    char first[128]; /* line, without what names the session */
    unsigned lines;
    unsigned sessions; /* named */
    bool expected;     /* the words of the case are in one */
};

/* Every line names a session that is hostile, and none is named twice. */
static void read_line(struct told *t, const char *line, unsigned long long *named, unsigned max)
{
    unsigned long long session;
    int pid, skip = 0;
    unsigned uid;

    ck_assert_msg(sscanf(line, "npud: warning: session %llu (pid %d, uid %u): %n", &session, &pid,
                         &uid, &skip) == 3 &&
                      skip > 0,
                  "npud said: %s", line);
    if (geteuid() == 0)
        ck_assert_msg(uid == SECOND_USER, "npud blames a well-behaved client: %s", line);
    for (unsigned i = 0; i < t->lines; i++)
        ck_assert_msg(named[i] != session, "npud says it twice: %s", line);
    ck_assert_uint_lt(t->lines, max);
    named[t->lines] = session;
    if (t->lines++ == 0)
        snprintf(t->first, sizeof(t->first), "%s", line + skip);
    t->expected |= it.c->told && strstr(line, it.c->told);
}

static struct told read_log(void)
{
    static unsigned long long named[4096];
    struct told t = {.first = ""};
    char path[64], line[1200];
    FILE *f;

    /* Opened anew: npud writes where the offset of the other one is. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", npud_stderr);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        read_line(&t, line, named, sizeof(named) / sizeof(named[0]));
    }
    fclose(f);
    return t;
}

/* --- one case --- */

static void add_to_table(const struct told *t, bool good)
{
    char times[MEASURED_KINDS][64];

    for (unsigned k = 0; k < MEASURED_KINDS; k++)
        snprintf(times[k], sizeof(times[k]), "%5.0f %5.2f %6.0f %5.2f %6.0f %5.2f",
                 (double)victims_time(PHASE_COMPARED, k, 500) / 1000, compute_ratio(k, 500, 0),
                 (double)victims_time(PHASE_COMPARED, k, 990) / 1000, compute_ratio(k, 990, 0),
                 (double)victims_time(PHASE_COMPARED, k, 1000) / 1000, compute_ratio(k, 1000, 0));
    dprintf(table, "%-34s|%5.2f|%s|%s|%s|%4llu %5u %5u  %-4s %s\n", it.c->name, compute_slowdown(),
            times[MEASURED_ROUND], times[MEASURED_WORK], times[MEASURED_REQUEST],
            (unsigned long long)(it.peak_memory >> 20), it.peak_fds, t->lines, good ? "yes" : "NO",
            t->lines ? t->first : "-");
}

static void start_npud(void)
{
    npud_stderr = memfd_create("log of npud", MFD_CLOEXEC);
    ck_assert_int_ge(npud_stderr, 0);
    npud_start(it.c->set);
    second_user_let_in();
}

static void *map_shared(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static void begin_case(const struct hostile_case *c)
{
    const char *seed = getenv("NPUD_HOSTILE_SEED");

    it.c = c;
    it.h = map_shared(sizeof(*it.h));
    it.progress = it.h->progress = map_shared(sizeof(*it.progress));
    it.seed = seed ? strtoull(seed, NULL, 0) : now_ns() % 1000000 + 1;
    fprintf(stderr, "%s: NPUD_HOSTILE_SEED=%llu\n", c->name, (unsigned long long)it.seed);
    start_npud();
}

/* False: once more. */
static bool bear_case(const struct hostile_case *c, unsigned attempt)
{
    struct ledger before;
    uint64_t memory;
    struct told told;
    bool good, short_steps;

    memset(&it, 0, sizeof(it));
    begin_case(c);
    before = npud_ledger();
    victims_start(&it.h->spoiled);
    victims_work(20); /* what npud allocates once, for them, is there */
    memory = proc_usage(npud.pid).anon;
    good = measure_slices();
    told = read_log();
    add_to_table(&told, good);
    short_steps = row_finish_victims(c->name, 1, 1, attempt);
    victims_end();
    npud_expect_empty();
    expect_idle();
    expect_as_before(before.fds, memory);
    ck_assert_uint_le(it.peak_memory, MEMORY_MAX);
    ck_assert_uint_le(it.peak_fds, FDS_MAX);
    ck_assert_msg(!it.c->told || told.expected, "npud does not say \"%s\"; first line: %s",
                  it.c->told, told.first);
    ck_assert_uint_le(told.lines, LINES_MAX + (unsigned)(ATTEMPTS * read_seconds()));
    ck_assert_msg(good || !is_strict(), "what the others do takes more than twice as long");
    npud_teardown();
    return short_steps;
}

START_TEST(beside_a_hostile_client)
{
    const struct hostile_case *c = &hostile_cases[_i];

    /* Where both have one uid, its limits are the victims' as well. */
    if (!c->set[0] || need_root(c->name))
        for (unsigned attempt = 0; !bear_case(c, attempt);)
            attempt++;
}
END_TEST

/*
 * The kernel charges descriptors that npud has sent and no client has taken to npud, and all its
 * clients share one limit. So npud ends a client that takes nothing after a few, long before the
 * socket is full.
 */
START_TEST(descriptors_left_unread)
{
    static struct raw raw = {.socket = -1};
    static struct packet packet;
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OpenDevice in = NPUD__OPEN_DEVICE__INIT;
    struct pollfd p = {.events = POLLRDHUP};
    unsigned n = 0;
    int r = 0;

    ck_assert(raw_open(&raw));
    p.fd = raw.socket;
    q.open_device = &in;
    q.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    /* One at a time is as good as any number of times. */
    for (unsigned i = 0; i < 100; i++)
        ck_assert(raw_open_device(&raw, 0));
    while (r == 0 && n++ < 64)
        r = raw_send(&raw, &q, 0);
    /* Not before: a client that reads in between is only slow. */
    ck_assert_int_eq(poll(&p, 1, 20000), 1);
    for (n = 0; packet_recv(raw.socket, &packet, 0) == 1; n++)
        packet_deinit(&packet);
    ck_assert_uint_ge(n, 4);
    ck_assert_uint_lt(n, 32);
    npud_expect_empty();
    raw_close(&raw);
}
END_TEST

static Suite *make_suite(void)
{
    const char *only = getenv("NPUD_HOSTILE_CASE");
    Suite *s = suite_create("hostile");
    TCase *t = suite_case(s, "beside", 60 + 2 * ATTEMPTS * read_seconds(), NULL, npud_teardown);

    tcase_add_loop_test(t, beside_a_hostile_client, only ? atoi(only) : 0,
                        only ? atoi(only) + 1 : (int)hostile_n_cases);
    t = suite_case(s, "one packet after the other", 60, npud_setup, npud_teardown);
    tcase_add_test(t, descriptors_left_unread);
    return s;
}

static void print_table(void)
{
    char buf[4096];
    ssize_t n;

    printf("%-34s|%5s|%-37s|%-37s|%-37s|%4s %5s %5s  %-4s %s\n", "us, ratio: median, p99, worst",
           "slow", "IPC round", "stream work", "request", "MiB", "fds", "lines", "good",
           "npud says");
    lseek(table, 0, SEEK_SET);
    while ((n = read(table, buf, sizeof(buf))) > 0)
        fwrite(buf, 1, (size_t)n, stdout);
}

int main(void)
{
    int failed;

    table = memfd_create("table", MFD_CLOEXEC);
    failed = run_suite(make_suite());
    if (failed || getenv("NPUD_TEST_TABLE"))
        print_table();
    return failed;
}
