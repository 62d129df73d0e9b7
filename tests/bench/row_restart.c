/*
 * Row 16: the pause that clients see when the server is killed, or replaced by npuctl upgrade: the
 * longest call of any of them, beside 10, 100 and 1,000 sessions with streams and events. Some
 * clients make requests and wait for tasks without a break; the other sessions are idle.
 */
#include "tests/bench/bench.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/crowd.h"
#include "tests/common/proc.h"
#include "tests/common/process.h"

#define WORKERS 4
#define LOOK_MS 1
#define REST_MS 50 /* between the standby's being there and the next kill */
#define MS      1e6

static struct shared {
    _Atomic bool over;
    _Atomic uint64_t longest_ns; /* of any call since the last kill */
    _Atomic uint64_t laps[WORKERS];
} * shared;

static unsigned worker_number;

static void note_call(uint64_t began)
{
    uint64_t ns = now_ns() - began, longest = atomic_load(&shared->longest_ns);

    while (ns > longest && !atomic_compare_exchange_weak(&shared->longest_ns, &longest, ns))
        ;
}

#define TIMED(call)                                                                                \
    do {                                                                                           \
        uint64_t began = now_ns();                                                                 \
        CHECK(call);                                                                               \
        note_call(began);                                                                          \
    } while (0)

static int work(void *arg)
{
    unsigned me = *(unsigned *)arg;
    aclrtStream stream;
    aclrtEvent event;
    void *memory;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    while (!atomic_load(&shared->over)) {
        TIMED(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        TIMED(aclrtRecordEvent(event, stream));
        TIMED(aclrtSynchronizeEvent(event));
        TIMED(aclrtFree(memory));
        atomic_fetch_add(&shared->laps[me], 1);
    }
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

/* Below npu-run, as this process is. */
static pid_t supervisor(void)
{
    pid_t pid = proc_child_named(getppid(), "npud-supervisor");

    if (pid == 0)
        die("npud has no supervisor");
    return pid;
}

static pid_t await_named(pid_t parent, const char *name, pid_t but)
{
    pid_t pid;

    while ((pid = proc_child_named(parent, name)) == 0 || pid == but)
        poll(NULL, 0, LOOK_MS);
    return pid;
}

/* Each worker has begun a lap with the next server, and ended it. */
static void await_laps(void)
{
    uint64_t before[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++)
        before[i] = atomic_load(&shared->laps[i]);
    for (unsigned i = 0; i < WORKERS; i++)
        while (atomic_load(&shared->laps[i]) < before[i] + 2)
            poll(NULL, 0, LOOK_MS);
}

static void kill_server(pid_t server)
{
    kill(server, SIGKILL);
}

static int exec_upgrade(void *arg)
{
    char npuctl[PATH_MAX];

    (void)arg;
    snprintf(npuctl, sizeof(npuctl), "%s/npuctl", options.bindir);
    if (!freopen("/dev/null", "w", stdout))
        die("/dev/null: %m");
    execl(npuctl, npuctl, "upgrade", NULL);
    die("%s: %m", npuctl);
}

static void upgrade_server(pid_t server)
{
    (void)server;
    expect_success("npuctl upgrade", process_end(start_process(exec_upgrade, NULL)));
}

static double replace_once(pid_t of, void (*replace)(pid_t server))
{
    pid_t server = await_named(of, "npud", 0);

    await_named(of, "npud-standby", 0);
    await_laps();
    poll(NULL, 0, REST_MS);
    atomic_store(&shared->longest_ns, 0);
    replace(server);
    await_named(of, "npud", server);
    await_laps();
    return (double)atomic_load(&shared->longest_ns);
}

/* The row is judged by the 90th percentile. */
static void emit_pause(const struct row *row, double *samples, unsigned n)
{
    double low, median, p90, max = 0;
    struct result r;

    for (unsigned i = 0; i < n; i++)
        max = samples[i] > max ? samples[i] : max;
    samples_spread(samples, n, 10, &low, &median, &p90);
    r = result_of_samples(row, &p90, 1, MS);
    snprintf(r.note, sizeof(r.note), "p90; median %.1f ms, longest %.1f ms, of %u", median / MS,
             max / MS, n);
    result_emit(&r);
}

static void measure_pause(const struct row *row, pid_t of, void (*replace)(pid_t server),
                          unsigned n)
{
    double samples[256];

    for (unsigned i = 0; i < n; i++)
        samples[i] = replace_once(of, replace);
    emit_pause(row, samples, n);
}

static void measure_pauses(const struct row *killed, const struct row *upgraded, unsigned sessions,
                           unsigned n)
{
    pid_t of = supervisor(), worker[WORKERS];
    struct crowd *crowd = crowd_start(sessions - WORKERS);
    const char *wrong = crowd ? crowd_assemble(crowd) : "cannot fork";

    if (wrong)
        die("crowd: %s", wrong);
    atomic_store(&shared->over, false);
    for (worker_number = 0; worker_number < WORKERS; worker_number++)
        worker[worker_number] = start_process(work, &worker_number);
    measure_pause(killed, of, kill_server, n);
    measure_pause(upgraded, of, upgrade_server, n);
    atomic_store(&shared->over, true);
    for (unsigned i = 0; i < WORKERS; i++)
        expect_success("a worker", process_end(worker[i]));
    wrong = crowd_step(crowd, CROWD_LEAVE);
    if (!wrong)
        wrong = crowd_end(crowd);
    if (wrong)
        die("crowd: %s", wrong);
}

static void share(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap: %m");
}

/* Each session that uses a device has an executor. */
void rows_restart_executors(void)
{
    static const struct row killed = {
        "28-killed", "longest call while the server is killed, 100 executors; in ms", 40};
    static const struct row upgraded = {
        "28-up", "longest call while npuctl upgrade replaces the server, 100 executors", 40};

    share();
    measure_pauses(&killed, &upgraded, count_of(100, 10), count_of(50, 2));
}

void rows_restart(void)
{
    static const struct row rows[] = {
        {"16", "longest call while the server is killed, 10 sessions; in ms", 10},
        {"16-100", "the same, 100 sessions", 30},
        {"16-1000", "the same, 1,000 sessions", 200},
    };
    static const struct row upgrades[] = {
        {"16-up", "longest call while npuctl upgrade replaces the server, 10 sessions", 10},
        {"16-up-100", "the same, 100 sessions", 30},
        {"16-up-1000", "the same, 1,000 sessions", 200},
    };

    share();
    measure_pauses(&rows[0], &upgrades[0], 10, count_of(100, 3));
    measure_pauses(&rows[1], &upgrades[1], count_of(100, 20), count_of(50, 2));
    if (!options.smoke)
        measure_pauses(&rows[2], &upgrades[2], 1000, 20);
}
