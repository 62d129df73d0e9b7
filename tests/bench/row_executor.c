/*
 * Row 28: tasks of a device that is away, whose work an executor gives to a library. Over a library
 * that does all at once in memory of the host (tests/vendor/fake_vendor.c), which is the cost of
 * the way; and over npud's own, which talks to a second npud with simulated devices.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/proc.h"
#include "tests/common/process.h"
#include "acl/acl_npud.h"

#define SIZE      64
#define BATCH     64
#define WARM_UP   100
#define COPY_SIZE (64u << 20)
#define MS        1e6

struct away {
    struct pair pair;
    aclrtStream stream;
    void *memory;
    enum game game; /* what the way is compared with */
};

static void away_begin(struct away *a)
{
    pair_start(&a->pair);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&a->stream));
    CHECK(aclrtMalloc(&a->memory, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
}

static void away_end(struct away *a)
{
    CHECK(aclrtFree(a->memory));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    pair_stop(&a->pair);
}

/* --- one task: awake the program polls, asleep it sleeps until the task is done --- */

static void await_stream(struct away *a)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    if (a->game != GAME_SPIN) {
        CHECK(aclrtSynchronizeStream(a->stream));
        return;
    }
    while (status != ACL_STREAM_STATUS_COMPLETE) {
        CHECK(aclrtStreamQuery(a->stream, &status));
        let_other_run();
    }
}

static void set(struct away *a)
{
    CHECK(aclrtMemsetAsync(a->memory, SIZE, 0, SIZE, a->stream));
}

static void delay(struct away *a)
{
    CHECK(aclnpudLaunchDelay(0, ACL_SUCCESS, a->stream));
}

static double time_tasks(struct away *a, void (*task)(struct away *a), unsigned n, unsigned batch)
{
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < batch; k++)
            task(a);
        await_stream(a);
    }
    return (double)(now_ns() - start) / n / batch;
}

/* Program, engine and lane are awake: with fewer processors they wait for each other's turns. */
static bool is_crowded(const struct away *a)
{
    return a->game == GAME_SPIN && cpu_count() < 3;
}

static unsigned warm_up_of(const struct away *a)
{
    return is_crowded(a) ? 10 : WARM_UP;
}

static double set_side(void *arg, unsigned n)
{
    time_tasks(arg, set, warm_up_of(arg), 1);
    return time_tasks(arg, set, n, 1);
}

/* What a task of the engine's own takes is not the way to the library. */
static double way_side(void *arg, unsigned n)
{
    double ns = set_side(arg, n);

    time_tasks(arg, delay, warm_up_of(arg), 1);
    return ns - time_tasks(arg, delay, n, 1);
}

static double batch_side(void *arg, unsigned n)
{
    time_tasks(arg, set, warm_up_of(arg) / 10, BATCH);
    return time_tasks(arg, set, n, BATCH);
}

static double game_side(void *arg, unsigned n)
{
    struct away *a = arg;

    return pair_play(&a->pair, a->game, WARM_UP, n);
}

static void run_contest(struct away *a, const struct row *row, side_fn side, unsigned n)
{
    const bool crowded = is_crowded(a);
    struct row judged = *row;
    struct contest c = {
        .value = side,
        .baseline = game_side,
        .arg = a,
        .n_value = crowded ? 10 : n,
        .n_baseline = 500,
        .rounds = count_of(crowded ? 20 : 200, 3),
    };
    struct result result;

    if (crowded)
        judged.budget = BUDGET_NONE;
    result = contest_run(&judged, &c);
    if (crowded) {
        snprintf(result.note, sizeof(result.note), "three that spin on two processors");
        strcat(result.row, "-2"); /* a row without a budget */
    }
    result_emit(&result);
}

void rows_null_awake(void)
{
    static const struct row way = {
        "28", "null library: a set less a delay, polled; vs two processes spinning", 1.2};
    static const struct row batch = {"28-batch", "the same, 64 sets at once, each; vs the same",
                                     BUDGET_NONE};
    struct away a = {.game = GAME_SPIN};

    away_begin(&a);
    run_contest(&a, &way, way_side, 500);
    run_contest(&a, &batch, batch_side, 20);
    away_end(&a);
}

void rows_null_asleep(void)
{
    static const struct row way = {
        "28-asleep", "null library: a set less a delay, all asleep; vs two on futexes", 1.3};
    struct away a = {.game = GAME_FUTEX};

    away_begin(&a);
    run_contest(&a, &way, way_side, 200);
    away_end(&a);
}

/* --- with nothing to do --- */

static uint64_t count_switches(pid_t npud, pid_t executor)
{
    return proc_switches(npud) + proc_switches(executor);
}

/* npud looks whether executors hang (vendor.hang_s=1) for half a second after their last work. */
static void await_last_look(pid_t npud)
{
    uint64_t before;
    unsigned tries = 30;

    do {
        before = proc_switches(npud);
        poll(NULL, 0, (int)count_of(1000, 600));
    } while (proc_switches(npud) != before && --tries > 0);
}

void rows_null_idle(void)
{
    static const struct row row = {"28-idle", "npud and an executor that has worked: in 10 s", 0};
    struct away a = {.game = GAME_FUTEX};
    pid_t npud = bench_npud_pid(), executor;
    double switches;
    struct result r;

    away_begin(&a);
    time_tasks(&a, set, WARM_UP, BATCH);
    executor = proc_child_named(npud, "npud-executor");
    if (executor == 0)
        die("npud has no executor");
    await_last_look(npud);
    await_quiet(executor);
    switches = (double)count_switches(npud, executor);
    poll(NULL, 0, (int)count_of(10000, 300));
    switches = (double)count_switches(npud, executor) - switches;
    r = result_of_samples(&row, &switches, 1, 1);
    snprintf(r.unit, sizeof(r.unit), "wake-ups");
    result_emit(&r);
    away_end(&a);
}

/* --- over an npud --- */

static int time_first_use(void *arg)
{
    uint64_t start;

    CHECK(aclInit(NULL));
    start = now_ns();
    CHECK(aclrtSetDevice(0));
    *(double *)arg = (double)(now_ns() - start);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

static void measure_first_use(double *shared)
{
    static const struct row row = {"28-start",
                                   "nested: aclrtSetDevice, which starts an executor; in ms", 5};
    double samples[100];
    unsigned n = count_of(100, 3);
    struct result r;

    for (unsigned i = 0; i < n; i++) {
        expect_success("a program", process_end(start_process(time_first_use, shared)));
        samples[i] = *shared;
    }
    r = result_of_samples(&row, samples, n, MS);
    result_emit(&r);
}

/* A client of the inner npud, which copies when it is told to. */
struct inner {
    int ask[2], answer[2];
    pid_t pid;
};

struct copy {
    aclrtStream stream;
    void *pinned, *device;
};

struct copies {
    struct inner inner;
    struct copy outer;
};

static void copy_begin(struct copy *c)
{
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&c->stream));
    CHECK(aclrtMallocHost(&c->pinned, COPY_SIZE));
    memset(c->pinned, 1, COPY_SIZE);
    CHECK(aclrtMalloc(&c->device, COPY_SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
}

static void copy_end(struct copy *c)
{
    CHECK(aclrtFree(c->device));
    CHECK(aclrtFreeHost(c->pinned));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}

static double time_copy(struct copy *c)
{
    uint64_t start = now_ns();

    CHECK(aclrtMemcpyAsync(c->device, COPY_SIZE, c->pinned, COPY_SIZE, ACL_MEMCPY_HOST_TO_DEVICE,
                           c->stream));
    CHECK(aclrtSynchronizeStream(c->stream));
    return (double)(now_ns() - start);
}

static int copy_when_told(void *arg)
{
    struct inner *inner = arg;
    struct copy copy;
    double ns;
    char c;

    close(inner->ask[1]);
    setenv("NPUD_SOCKET", getenv("BENCH_INNER_SOCKET"), 1);
    copy_begin(&copy);
    while (read(inner->ask[0], &c, 1) == 1) {
        ns = time_copy(&copy);
        if (write(inner->answer[1], &ns, sizeof(ns)) != sizeof(ns))
            die("write: %m");
    }
    copy_end(&copy);
    return 0;
}

static void inner_start(struct inner *inner)
{
    if (pipe(inner->ask) != 0 || pipe(inner->answer) != 0)
        die("pipe: %m");
    inner->pid = start_process(copy_when_told, inner);
    close(inner->ask[0]);
}

static double inner_side(void *arg, unsigned n)
{
    struct copies *c = arg;
    double ns;

    (void)n;
    if (write(c->inner.ask[1], "", 1) != 1 || read(c->inner.answer[0], &ns, sizeof(ns)) < 0)
        die("the inner copy: %m");
    return ns;
}

static double outer_side(void *arg, unsigned n)
{
    struct copies *c = arg;

    (void)n;
    return time_copy(&c->outer);
}

static void measure_copies(struct copies *copies)
{
    static const struct row row = {
        .name = "28-copy",
        .what = "nested: 64 MiB of pinned memory; vs the inner npud, ratio of rates",
        .budget = 0.9,
        .at_least = true,
    };
    struct contest c = {
        .value = outer_side,
        .baseline = inner_side,
        .arg = copies,
        .n_value = 1,
        .n_baseline = 1,
        .rounds = count_of(50, 2),
    };
    struct result result;

    copy_begin(&copies->outer);
    result = contest_run(&row, &c);
    result_emit(&result);
    copy_end(&copies->outer);
    close(copies->inner.ask[1]);
    expect_success("the inner client", process_end(copies->inner.pid));
}

void rows_nested(void)
{
    static const struct row task = {"28-nested",
                                    "nested: a set and its end, all asleep; vs two on futexes", 4};
    struct away a = {.game = GAME_FUTEX};
    struct copies copies;
    double *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        die("mmap: %m");
    /* Before the library is used here: who forks after that has none. */
    measure_first_use(shared);
    inner_start(&copies.inner);
    away_begin(&a);
    run_contest(&a, &task, set_side, 100);
    away_end(&a);
    measure_copies(&copies);
}
