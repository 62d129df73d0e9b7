/*
 * Row 22: kernels. An empty one is launched and seen retired, by a thread that sleeps meanwhile,
 * beside two processes that wake each other on futexes; and by one that asks again and again. And
 * 64 blocks that compute for a millisecond each, beside the time that they take one after the
 * other, divided by the number of processors.
 */
#include <unistd.h>

#include "acl/acl_npud_kernel.h"
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#define WARM_UP  16
#define BLOCKS   64
#define BLOCK_NS UINT64_C(1000000)

struct kernel_bench {
    struct pair pair;
    aclrtStream stream;
    uint64_t steps; /* of compute(), that take a millisecond */
};

static void do_nothing(const void *function, const void *args)
{
    (void)function;
    (void)args;
}

static uint64_t compute(uint64_t steps)
{
    uint64_t x = 88172645463325252u;

    for (uint64_t i = 0; i < steps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static void compute_block(const void *function, const void *args)
{
    volatile uint64_t result = compute(*(const uint64_t *)args);

    (void)function;
    (void)result;
}

static void launch(const struct kernel_bench *b, void (*call)(const void *, const void *),
                   uint32_t blocks)
{
    const aclnpudKernel kernel = {
        .size = sizeof(kernel), .name = "bench", .function = &kernel, .call = call};

    CHECK(aclnpudLaunchKernel(&kernel, blocks, &b->steps, sizeof(b->steps), b->stream));
}

static void await_asleep(aclrtStream stream)
{
    CHECK(aclrtSynchronizeStream(stream));
}

static void await_polling(aclrtStream stream)
{
    aclrtStreamStatus status;

    do
        CHECK(aclrtStreamQuery(stream, &status));
    while (status != ACL_STREAM_STATUS_COMPLETE);
}

static double round_trips(struct kernel_bench *b, void (*await)(aclrtStream), unsigned n)
{
    uint64_t start = 0;

    for (unsigned i = 0; i < WARM_UP + n; i++) {
        if (i == WARM_UP)
            start = now_ns();
        launch(b, do_nothing, 1);
        await(b->stream);
    }
    return (double)(now_ns() - start) / n;
}

static double asleep_side(void *arg, unsigned n)
{
    return round_trips(arg, await_asleep, n);
}

static double awake_side(void *arg, unsigned n)
{
    return round_trips(arg, await_polling, n);
}

static double futex_side(void *arg, unsigned n)
{
    struct kernel_bench *b = arg;

    return pair_play(&b->pair, GAME_FUTEX, WARM_UP, n);
}

static double blocks_side(void *arg, unsigned n)
{
    struct kernel_bench *b = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        launch(b, compute_block, BLOCKS);
        await_asleep(b->stream);
    }
    return (double)(now_ns() - start) / n;
}

/* All blocks in turn, as if the processors shared the work without loss. */
static double turn_side(void *arg, unsigned n)
{
    const struct kernel_bench *b = arg;
    unsigned cpus = cpu_count() < BLOCKS ? cpu_count() : BLOCKS;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < BLOCKS; k++)
            compute_block(NULL, &b->steps);
    return (double)(now_ns() - start) / n / cpus;
}

static void set_steps(struct kernel_bench *b)
{
    uint64_t best = UINT64_MAX;

    b->steps = 1000;
    for (int i = 0; i < 20; i++) {
        uint64_t start = now_ns(), took;

        compute_block(NULL, &b->steps);
        took = now_ns() - start;
        best = took < best ? took : best;
    }
    b->steps = b->steps * BLOCK_NS / (best ? best : 1);
}

void rows_kernel(void)
{
    static const struct row rows[] = {
        {"22-asleep", "launch an empty kernel, see it retired, asleep; vs futexes", 2.5},
        {"22-awake", "the same by a thread that asks again and again; vs futexes", BUDGET_NONE},
        {"22-blocks", "64 blocks of 1 ms; vs all in turn / CPUs", 1.1},
    };
    struct contest contests[] = {
        {asleep_side, futex_side, NULL, 200, 200, count_of(300, 5)},
        {awake_side, futex_side, NULL, 200, 200, count_of(300, 5)},
        {blocks_side, turn_side, NULL, 1, 1, count_of(40, 2)},
    };
    struct kernel_bench b = {0};

    pair_start(&b.pair);
    set_steps(&b);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&b.stream));
    for (unsigned i = 0; i < 3; i++) {
        struct result result;

        contests[i].arg = &b;
        result = contest_run(&rows[i], &contests[i]);
        result_emit(&result);
    }
    CHECK(aclrtDestroyStream(b.stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    pair_stop(&b.pair);
}
