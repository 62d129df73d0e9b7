/*
 * A thousand sessions at once, ten thousand streams, a hundred thousand events: that all of them
 * work, what they cost, that nothing of them stays behind, and that one client among them is not
 * made to wait by what the others do.
 *
 * Figures are printed: run the program by itself to see them. Sanitized builds have a smaller
 * crowd.
 *
 * Skipped under TSan: it only costs memory; its processes do what test_ipc_order and the soak do.
 * Runs long: 24 s.
 * Skipped under chaos: figures of the process that serves.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/crowd.h"
#include "tests/common/effort.h"
#include "tests/common/proc.h"
#include "tests/common/need.h"

#define FDS_OF_CROWD 20000 /* of npud */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#define CROWD     60u
#else
#define SANITIZED false
#define CROWD     1000u
#endif

#define VISITS      CROWD
#define VISITORS    8           /* at the same time */
#define OWN_MEMORY  (32 * 1024) /* of npud, for each session */
#define PAGE_TABLES (3 * 1024)
/* Socket, pidfd, doorbell, page, segments of streams and of events; and the IPC events it made. */
#define FDS_PER_SESSION (6 + CROWD_OWN)
#define REPORT_MEMORY   (2 * 1024 * 1024) /* a report of 100,000 events is 10 MB */
#define BEHIND_MAX_NS   UINT64_C(50000000)
#define SECONDS(ns)     ((double)(ns) / 1e9)
#define KIB(bytes, n)   ((double)(bytes) / 1024 / (n))

#define GOOD(call)                                                                                 \
    do {                                                                                           \
        const char *wrong_ = (call);                                                               \
        ck_assert_msg(!wrong_, "%s: %s", #call, wrong_);                                           \
    } while (0)

/* --- what npud says --- */

/* The number behind "key": in what npuctl prints. */
static uint64_t json_number(const char *json, const char *key)
{
    char quoted[64];
    const char *p;

    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    p = strstr(json, quoted);
    ck_assert_msg(p != NULL, "npuctl says nothing of %s", key);
    return strtoull(p + strlen(quoted), NULL, 10);
}

/* Run npuctl and read what it prints. The caller frees it. */
static char *printed_by(const char *arguments)
{
    const char *dir = getenv("NPUD_BINDIR");
    char command[512], *text = NULL;
    size_t size = 0, n;
    FILE *f;

    snprintf(command, sizeof(command), "%s/npuctl %s", dir ? dir : "build", arguments);
    f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    do {
        text = realloc(text, size + (1 << 20) + 1);
        ck_assert_ptr_nonnull(text);
        n = fread(text + size, 1, 1 << 20, f);
        size += n;
    } while (n > 0);
    text[size] = '\0';
    ck_assert_int_eq(pclose(f), 0);
    return text;
}

static void expect_counts(unsigned members, unsigned streams)
{
    char *json = printed_by("--json status");

    ck_assert_uint_eq(json_number(json, "sessions"), members);
    ck_assert_uint_eq(json_number(json, "streams"), members * streams);
    ck_assert_uint_eq(json_number(json, "events"), members * CROWD_EVENTS);
    free(json);
}

static unsigned rows_in(const char *json)
{
    unsigned n = 0;

    for (const char *p = json; (p = strstr(p, "\"session\"")); p++)
        n++;
    return n;
}

/*
 * One client that goes about its work. How long a request takes says more of how many programs run
 * on this machine than of npud; so what is checked is how much else the control thread did in that
 * time. (The kernel tells that with the precision of a clock tick, 4 ms or less.)
 */

struct worker {
    pthread_t thread;
    aclrtContext context;
    _Atomic bool stop;
    uint64_t longest_request, longest_task, n;
    uint64_t most_behind; /* CPU time of the control thread during one request */
};

static uint64_t pick_longer(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    aclrtStream stream, brief;
    uint64_t start, made, cpu;

    OK(aclrtSetCurrentContext(w->context));
    OK(aclrtCreateStream(&stream));
    while (!atomic_load(&w->stop)) {
        cpu = proc_main_cpu_ns(npud.pid);
        start = now_ns();
        OK(aclrtCreateStream(&brief));
        OK(aclrtDestroyStream(brief));
        made = now_ns();
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
        w->longest_request = pick_longer(w->longest_request, made - start);
        w->longest_task = pick_longer(w->longest_task, now_ns() - made);
        w->most_behind = pick_longer(w->most_behind, proc_main_cpu_ns(npud.pid) - cpu);
        w->n++;
    }
    OK(aclrtDestroyStream(stream));
    return NULL;
}

static void worker_start(struct worker *w)
{
    *w = (struct worker){0};
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&w->context));
    ck_assert_int_eq(pthread_create(&w->thread, NULL, run_worker, w), 0);
}

/* False: npud did too much else first. */
static bool worker_stop(struct worker *w, const char *during)
{
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    printf("  a client beside it, %s: %" PRIu64
           " rounds; longest request %.2f ms, task %.2f ms; at most %.2f ms of other work before\n",
           during, w->n, (double)w->longest_request / 1e6, (double)w->longest_task / 1e6,
           (double)w->most_behind / 1e6);
    return SANITIZED || w->most_behind < BEHIND_MAX_NS;
}

static void worker_leave(void)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

/* --- the crowd --- */

static struct proc_usage before;
static unsigned fds_before; /* by npud's own count, with the connection that asks */

static void remember_usage(void)
{
    /* The first answer comes when it has closed what it used to start. */
    npud_ledger();
    fds_before = npud_ledger().fds;
    before = proc_usage(npud.pid);
}

static struct crowd *assemble_crowd(void)
{
    struct crowd *crowd;
    uint64_t start, connected;

    remember_usage();
    crowd = crowd_start(CROWD);
    ck_assert_ptr_nonnull(crowd);
    start = now_ns();
    GOOD(crowd_step(crowd, CROWD_CONNECT));
    connected = now_ns();
    GOOD(crowd_step(crowd, CROWD_CREATE));
    GOOD(crowd_step(crowd, CROWD_OPEN));
    printf("  %u sessions connected at once in %.2f s; %u streams, %u events in %.2f s\n", CROWD,
           SECONDS(connected - start), CROWD * CROWD_STREAMS, CROWD * CROWD_EVENTS,
           SECONDS(now_ns() - connected));
    return crowd;
}

static void expect_cheap(void)
{
    struct proc_usage u = proc_usage(npud.pid);

    printf("  npud, per session: %.1f KiB of its own and %.1f of page tables; %.1f shared with it; "
           "%.1f fds, %.1f mappings\n",
           KIB(u.anon - before.anon, CROWD), KIB(u.pte - before.pte, CROWD),
           KIB(u.shmem - before.shmem, CROWD), (double)(u.fds - before.fds) / CROWD,
           (double)(u.maps - before.maps) / CROWD);
    ck_assert_uint_le(u.fds - before.fds, CROWD * FDS_PER_SESSION);
    if (!SANITIZED) {
        ck_assert_uint_le((u.anon - before.anon) / CROWD, OWN_MEMORY);
        ck_assert_uint_le((u.pte - before.pte) / CROWD, PAGE_TABLES);
    }
}

/* npud has seen the last of them go, and holds what it held before they came. */
static struct proc_usage expect_nothing_left(void)
{
    uint64_t give_up = now_ns() + UINT64_C(20000000000);
    struct proc_usage u;

    npud_expect_empty();
    while (npud_ledger().fds > fds_before && now_ns() < give_up)
        ; /* it learns in its own time that earlier askers have gone, and each answer is later */
    ck_assert_uint_eq(npud_ledger().fds, fds_before);
    u = proc_usage(npud.pid);
    printf("  npud holds %u fds, %u mappings, %.0f KiB more than before\n", u.fds, u.maps,
           KIB(u.anon, 1) - KIB(before.anon, 1));
    return u;
}

START_TEST(a_thousand_sessions_work)
{
    struct crowd *crowd;
    uint64_t start;

    if (!need_fds(__func__, FDS_OF_CROWD))
        return;
    crowd = assemble_crowd();
    expect_counts(CROWD, CROWD_STREAMS);
    expect_cheap();
    for (unsigned lap = 0; lap < 2; lap++) {
        start = now_ns();
        GOOD(crowd_lap(crowd));
        printf("  a lap of work round the ring of %u: %.2f s\n", CROWD, SECONDS(now_ns() - start));
    }
    /* With strict devices, also that of the library, for copies. */
    expect_counts(CROWD, CROWD_STREAMS + npud_is_strict());
    start = now_ns();
    GOOD(crowd_step(crowd, CROWD_LEAVE));
    npud_expect_empty();
    printf("  all left in %.2f s\n", SECONDS(now_ns() - start));
    GOOD(crowd_end(crowd));
    expect_nothing_left();
}
END_TEST

/*
 * Each member has a stream that waits for its gate, and all but the first one that waits for the
 * record of the one before.
 */
static void expect_waits(void)
{
    uint64_t give_up = now_ns() + UINT64_C(20000000000), start, cpu;
    unsigned rows;

    /* The last ones may not have got to their waits when all have submitted them. */
    do {
        char *json;

        start = now_ns();
        cpu = proc_main_cpu_ns(npud.pid);
        json = printed_by("--json waits");
        rows = rows_in(json);
        free(json);
    } while (rows != 2 * CROWD - 1 && now_ns() < give_up);
    printf("  npuctl --json waits: %u rows, %.2f s, npud's CPU time %.2f ms\n", rows,
           SECONDS(now_ns() - start), (double)(proc_main_cpu_ns(npud.pid) - cpu) / 1e6);
    ck_assert_uint_eq(rows, 2 * CROWD - 1);
}

static bool storm_of_deaths(void)
{
    struct crowd *crowd = assemble_crowd();
    struct worker worker;
    uint64_t start, cpu;
    bool fine;

    GOOD(crowd_step(crowd, CROWD_ARM));
    GOOD(crowd_step(crowd, CROWD_LINK));
    expect_waits();
    worker_start(&worker);
    start = now_ns();
    cpu = proc_cpu_ns(npud.pid);
    crowd_kill(crowd);
    while (npud_ledger().sessions > 1)
        ck_assert_uint_lt(now_ns() - start, UINT64_C(60000000000));
    printf("  all killed, and forgotten after %.2f s; npud's CPU time %.2f s\n",
           SECONDS(now_ns() - start), SECONDS(proc_cpu_ns(npud.pid) - cpu));
    fine = worker_stop(&worker, "while all others die");
    worker_leave();
    GOOD(crowd_end(crowd));
    expect_nothing_left();
    return fine;
}

/*
 * Where a thousand processes end, a client may have an answer and no CPU to read it on, while npud
 * goes on: then once more.
 */
START_TEST(a_thousand_deaths)
{
    if (!need_fds(__func__, FDS_OF_CROWD))
        return;
    for (unsigned tries = 1; !storm_of_deaths(); tries++)
        ck_assert_uint_lt(tries, 4);
}
END_TEST

START_TEST(reports_of_everything)
{
    static const struct {
        const char *command;
        unsigned rows;
    } reports[] = {{"--json sessions", CROWD + 1},
                   {"--json streams", CROWD * CROWD_STREAMS + 3},
                   {"--json events", CROWD * CROWD_EVENTS}};
    struct crowd *crowd;
    uint64_t assembled, after;
    struct worker worker;

    if (!need_fds(__func__, FDS_OF_CROWD))
        return;
    crowd = assemble_crowd();
    assembled = proc_usage(npud.pid).anon;
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        uint64_t start;
        char *json;
        unsigned rows;

        worker_start(&worker);
        start = now_ns();
        json = printed_by(reports[i].command);
        printf("  npuctl %s: %.2f s, %zu KiB\n", reports[i].command, SECONDS(now_ns() - start),
               strlen(json) / 1024);
        ck_assert(worker_stop(&worker, "meanwhile"));
        rows = rows_in(json);
        free(json);
        worker_leave();
        ck_assert_uint_le(rows, reports[i].rows);
        ck_assert_uint_ge(rows + 3, reports[i].rows);
    }
    after = proc_usage(npud.pid).anon;
    printf("  npud has grown by %.0f KiB\n", KIB(after, 1) - KIB(assembled, 1));
    if (!SANITIZED)
        ck_assert_uint_le(after, assembled + REPORT_MEMORY);
    crowd_kill(crowd);
    GOOD(crowd_end(crowd));
    expect_nothing_left();
}
END_TEST

/* --- coming and going --- */

/* A client that stays for a moment, and leaves in one of three ways. */
static int visit_npud(void *arg)
{
    unsigned number = *(unsigned *)arg;
    aclrtIpcEventHandle handle;
    aclrtStream streams[2];
    aclrtEvent plain, shared, gate;

    OK(aclInit(NULL));
    OK(aclrtSetDevice((int32_t)(number / 3 % 2)));
    for (unsigned i = 0; i < 2; i++)
        OK(aclrtCreateStream(&streams[i]));
    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventExWithFlag(&shared, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(shared, &handle));
    OK(aclnpudLaunchDelay(0, 0, streams[0]));
    OK(aclrtRecordEvent(plain, streams[0]));
    OK(aclrtStreamWaitEvent(streams[1], plain));
    OK(aclrtRecordEvent(shared, streams[1]));
    OK(aclrtSynchronizeEvent(shared));
    if (number % 3 == 0) {
        OK(aclFinalize());
    } else if (number % 3 == 1) {
        OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
        OK(aclrtStreamWaitEvent(streams[0], gate));
        OK(aclrtRecordEvent(shared, streams[0]));
        kill(getpid(), SIGKILL);
    }
    return 0;
}

static void reap_visitor(void)
{
    int status;

    ck_assert_int_gt(waitpid(-1, &status, 0), 0);
    ck_assert_msg(status == 0 || status == SIGKILL, "a visitor ended with status 0x%x", status);
}

struct visits {
    double seconds;
    double cpu; /* npud's */
};

/* Until as many have come and gone, and npud has forgotten the last. */
static struct visits measure_visits(unsigned n)
{
    uint64_t start = now_ns(), cpu = proc_cpu_ns(npud.pid);

    for (unsigned i = 0; i < n; i++) {
        if (i >= VISITORS)
            reap_visitor();
        child_start(visit_npud, &i);
    }
    for (unsigned i = 0; i < n && i < VISITORS; i++)
        reap_visitor();
    npud_expect_empty();
    return (struct visits){.seconds = SECONDS(now_ns() - start),
                           .cpu = SECONDS(proc_cpu_ns(npud.pid) - cpu)};
}

#define ROUNDS_MAX 12

/*
 * The first round is for npud to grow to what it needs. After that nothing grows, and the last
 * round takes no longer than the second. What is compared is npud's CPU time, which other programs
 * on the machine change less than the time on the clock; and when they did so all the same in the
 * last round, there is one more.
 */
START_TEST(clients_come_and_go)
{
    struct visits r[ROUNDS_MAX];
    struct proc_usage warm, u;
    unsigned n = 0, rounds = choose_effort(3, 8);

    remember_usage();
    r[n++] = measure_visits(VISITS);
    warm = expect_nothing_left();
    do {
        r[n] = measure_visits(VISITS);
        printf("  %u clients come and go: %.2f s, of which npud %.3f\n", VISITS, r[n].seconds,
               r[n].cpu);
        n++;
    } while (n < rounds || (n < ROUNDS_MAX && r[n - 1].cpu > 1.3 * r[1].cpu));
    u = expect_nothing_left();
    printf("  npud after the first round and after the last: %.0f and %.0f KiB of its own, %u and "
           "%u mappings\n",
           KIB(warm.anon, 1), KIB(u.anon, 1), warm.maps, u.maps);
    ck_assert_uint_le(u.maps, warm.maps + 8); /* heaps of threads may still begin */
    if (!SANITIZED) {
        ck_assert_uint_le(u.anon, warm.anon + 256 * 1024);
        ck_assert_double_le(r[n - 1].cpu, 1.3 * r[1].cpu);
    }
}
END_TEST

/* --- a full backlog --- */

static pid_t stopped;
static volatile sig_atomic_t interruptions;

static void on_alarm(int signal)
{
    (void)signal;
    if (++interruptions == 5)
        kill(stopped, SIGCONT);
}

/* Connect until the queue is full. */
static int fill_backlog(int *fd, int max)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int n;

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_SOCKET"));
    for (n = 0; n < max; n++) {
        fd[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(fd[n], 0);
        if (connect(fd[n], (struct sockaddr *)&addr, sizeof(addr)) < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            close(fd[n]);
            break;
        }
    }
    ck_assert_int_lt(n, max);
    return n;
}

/* A client that comes when the queue is full waits for a place, whatever signals come meanwhile. */
START_TEST(a_full_backlog_makes_clients_wait)
{
    static const struct itimerval often = {{0, 10000}, {0, 10000}}, never;
    struct sigaction interrupt = {.sa_handler = on_alarm}; /* without SA_RESTART */
    static int fd[5000];
    int n;

    if (!need_own_fds(__func__, 5100))
        return;
    stopped = npud.pid;
    kill(npud.pid, SIGSTOP);
    ck_assert_int_eq(waitpid(npud.pid, &n, WUNTRACED), npud.pid);
    n = fill_backlog(fd, 5000);
    sigaction(SIGALRM, &interrupt, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    setitimer(ITIMER_REAL, &never, NULL);
    ck_assert_int_ge(interruptions, 5);
    printf("  a client waited behind a full backlog of %d\n", n);
    worker_leave();
    while (n > 0)
        close(fd[--n]);
    npud_expect_empty();
}
END_TEST

/* A case for each, so that CK_RUN_CASE can choose one. */
static void add_case(Suite *suite, const char *name, const TTest *test)
{
    TCase *t = suite_case(suite, name, 180, npud_setup, npud_teardown);

    tcase_add_test(t, test);
}

int main(void)
{
    Suite *suite = suite_create("scale");

    setvbuf(stdout, NULL, _IONBF, 0);
    add_case(suite, "work", a_thousand_sessions_work);
    add_case(suite, "deaths", a_thousand_deaths);
    add_case(suite, "reports", reports_of_everything);
    add_case(suite, "visits", clients_come_and_go);
    add_case(suite, "backlog", a_full_backlog_makes_clients_wait);
    return run_suite(suite);
}
