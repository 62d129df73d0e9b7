/* Row 3: hand a task to the engine and see it retired. */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/common/proc.h"
#include "tests/common/process.h"
#include "acl/acl_npud.h"

#define SIZE    64
#define WARM_UP 200 /* the partner has to wake up before it can spin */

struct submit {
    struct pair pair;
    aclrtStream stream;
    void *memory;
    pid_t npud;
};

static void poll_stream(aclrtStream stream)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    for (;;) {
        CHECK(aclrtStreamQuery(stream, &status));
        if (status == ACL_STREAM_STATUS_COMPLETE)
            break;
        let_other_run();
    }
}

static void launch_and_poll(struct submit *s)
{
    CHECK(aclnpudLaunchDelay(0, ACL_SUCCESS, s->stream));
    poll_stream(s->stream);
}

static void set_and_poll(struct submit *s)
{
    CHECK(aclrtMemsetAsync(s->memory, SIZE, 0, SIZE, s->stream));
    poll_stream(s->stream);
}

/* With two CPUs, an engine that still spins takes one from the two processes of the baseline. */
static void await_sleep_of(pid_t npud)
{
    while (!proc_sleeps(npud))
        sched_yield();
}

static double time_submissions(void (*once)(struct submit *s), struct submit *s, unsigned n)
{
    uint64_t start;

    for (unsigned i = 0; i < WARM_UP; i++)
        once(s);
    start = now_ns();
    for (unsigned i = 0; i < n; i++)
        once(s);
    start = now_ns() - start;
    await_sleep_of(s->npud);
    return (double)start / n;
}

static double launch_side(void *arg, unsigned n)
{
    return time_submissions(launch_and_poll, arg, n);
}

static double set_side(void *arg, unsigned n)
{
    return time_submissions(set_and_poll, arg, n);
}

static double spin_side(void *arg, unsigned n)
{
    struct submit *s = arg;

    return pair_play(&s->pair, GAME_SPIN, WARM_UP, n);
}

/* --- with a trace that runs --- */

static int exec_trace(void *verb)
{
    char npuctl[PATH_MAX];

    snprintf(npuctl, sizeof(npuctl), "%s/npuctl", options.bindir);
    execl(npuctl, npuctl, "trace", verb, NULL);
    die("%s: %m", npuctl);
}

static void ask_trace(const char *verb)
{
    expect_success("npuctl trace", process_end(start_process(exec_trace, (void *)(uintptr_t)verb)));
}

static double traced_side(void *arg, unsigned n)
{
    double ns;

    ask_trace("start");
    ns = launch_side(arg, n);
    ask_trace("stop");
    return ns;
}

/* What npuctl does to the caches, it does to both sides. */
static double untraced_side(void *arg, unsigned n)
{
    ask_trace("start");
    ask_trace("stop");
    return launch_side(arg, n);
}

static void emit_traced(struct submit *s)
{
    static const struct row row = {
        "3-trace", "the delay while a trace runs; vs the same when none does", 1.15};
    struct contest c = {
        .value = traced_side,
        .baseline = untraced_side,
        .arg = s,
        .n_value = 1000,
        .n_baseline = 1000,
        .rounds = count_of(1000, 10),
    };
    struct result result;

    if (options.ab) /* the other build may be one that has no traces */
        return;
    result = contest_run(&row, &c);
    result_emit(&result);
}

static struct result run_contest(struct submit *s, const char *name, const char *what, side_fn side)
{
    struct row row = {.name = name, .what = what, .budget = BUDGET_NONE};
    struct contest c = {
        .value = side,
        .baseline = spin_side,
        .arg = s,
        .n_value = 1000,
        .n_baseline = 1000,
        .rounds = count_of(500, 10),
    };

    return contest_run(&row, &c);
}

void rows_submit(void)
{
    struct result results[2];
    struct submit s;

    s.npud = bench_npud_pid();
    pair_start(&s.pair);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&s.stream));
    CHECK(aclrtMalloc(&s.memory, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    results[0] = run_contest(
        &s, "3-delay", "launch a delay of 0, poll stream; vs two processes spinning", launch_side);
    results[1] = run_contest(&s, "3-set", "aclrtMemsetAsync of 64 bytes, poll stream; vs the same",
                             set_side);
    results_emit_worst("3", results, 2);
    emit_traced(&s);
    CHECK(aclrtFree(s.memory));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    pair_stop(&s.pair);
}
