/*
 * Row 13: a callback is launched, run by a thread that sleeps in aclrtProcessReport, and wakes the
 * launcher: there and back, beside two processes that wake each other on futexes. Three wake-ups at
 * most where the raw one has two: npud's engine comes first.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <pthread.h>

#define WARM_UP 16

struct callback_bench {
    struct pair pair;
    aclrtStream stream;
    aclrtCallbackBlockType type;
    pthread_t thread;
    _Atomic int cpu; /* of the thread: as for pin() */
    _Atomic bool stop;
    _Atomic uint32_t back; /* futex: counts callbacks */
};

static void answer_callback(void *arg)
{
    struct callback_bench *b = arg;

    tell(&b->back, atomic_load_explicit(&b->back, memory_order_relaxed) + 1);
}

static void *process_reports(void *arg)
{
    struct callback_bench *b = arg;
    int cpu = -1;

    while (!atomic_load(&b->stop)) {
        aclError error = aclrtProcessReport(-1);

        /* Not subscribed yet, or no more. */
        if (error != ACL_ERROR_RT_THREAD_SUBSCRIBE)
            CHECK(error);
        if (atomic_load(&b->cpu) != cpu)
            pin(cpu = atomic_load(&b->cpu));
    }
    return NULL;
}

static void round_trips(struct callback_bench *b, unsigned n)
{
    uint32_t back = atomic_load_explicit(&b->back, memory_order_relaxed);

    for (unsigned i = 0; i < n; i++) {
        CHECK(aclrtLaunchCallback(answer_callback, b, b->type, b->stream));
        sleep_until(&b->back, ++back);
    }
}

static double callback_side(void *arg, unsigned n)
{
    uint64_t start;

    round_trips(arg, WARM_UP);
    start = now_ns();
    round_trips(arg, n);
    return (double)(now_ns() - start) / n;
}

static double futex_side(void *arg, unsigned n)
{
    struct callback_bench *b = arg;

    return pair_play(&b->pair, GAME_FUTEX, WARM_UP, n);
}

static double relay_side(void *arg, unsigned n)
{
    struct callback_bench *b = arg;
    double ns;

    relay_set(b->pair.page, RELAY_SPINS);
    ns = pair_play(&b->pair, GAME_RELAY, WARM_UP, n);
    relay_set(b->pair.page, RELAY_OFF);
    return ns;
}

static struct result run_contest(struct callback_bench *b, side_fn baseline,
                                 aclrtCallbackBlockType type, const char *name, const char *what)
{
    struct row row = {.name = name, .what = what, .budget = 1.5};
    struct contest contest = {
        .value = callback_side,
        .baseline = baseline,
        .arg = b,
        .n_value = 200,
        .n_baseline = 200,
        .rounds = count_of(300, 5),
    };

    b->type = type;
    return contest_run(&row, &contest);
}

static void place_threads(struct callback_bench *b, int first, int second)
{
    pin(first);
    atomic_store(&b->cpu, second);
    b->pair.first.seat->cpu = first;
    b->pair.second.seat->cpu = second;
}

void rows_callback(void)
{
    struct callback_bench b = {.cpu = -1};
    struct result results[2];
    struct result like;
    pid_t relay;

    pair_start(&b.pair);
    relay = relay_start(b.pair.page);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&b.stream));
    if (pthread_create(&b.thread, NULL, process_reports, &b) != 0)
        die("no thread");
    CHECK(aclrtSubscribeReport((uint64_t)b.thread, b.stream));
    results[0] = run_contest(&b, futex_side, ACL_CALLBACK_NO_BLOCK, "13-plain",
                             "launch a callback, run it in a waiting thread, back; vs futexes");
    results[1] = run_contest(&b, futex_side, ACL_CALLBACK_BLOCK, "13-block",
                             "the same, and it blocks the stream");
    results_emit_worst("13", results, 2);
    if (cpu_count() > 1) {
        place_threads(&b, 0, 1);
        like = run_contest(&b, futex_side, ACL_CALLBACK_BLOCK, "13-apart",
                           "the same, one thread pinned to CPU 0, the other to CPU 1");
        result_emit(&like);
        place_threads(&b, -1, -1);
    }
    like = run_contest(&b, relay_side, ACL_CALLBACK_BLOCK, "13-relay",
                       "the same; vs two on futexes that a spinning third process wakes");
    result_emit(&like);
    CHECK(aclrtSynchronizeStream(b.stream));
    atomic_store(&b.stop, true);
    CHECK(aclrtUnSubscribeReport((uint64_t)b.thread, b.stream));
    pthread_join(b.thread, NULL);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    relay_stop(b.pair.page, relay);
    pair_stop(&b.pair);
}
