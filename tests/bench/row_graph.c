/*
 * Row 24: a graph of 1,000 small tasks; vs the same tasks in the stream's ring, the engine alone.
 */
#include "tests/bench/bench.h"

#include <stdlib.h>

#define TASKS 1000u /* and two more fit into a ring */
#define SMALL 64u

struct graph_bench {
    aclrtStream stream, gate;
    uint64_t *word; /* that the stream waits for */
    unsigned char *memory;
    aclmdlRI model;
};

static void fill(const struct graph_bench *b)
{
    for (unsigned i = 0; i < TASKS; i++)
        CHECK(aclrtMemsetAsync(b->memory + (size_t)i * SMALL, SMALL, (int)(i & 0xff), SMALL,
                               b->stream));
}

static void submit_model(const struct graph_bench *b)
{
    CHECK(aclmdlRIExecuteAsync(b->model, b->stream));
}

/* From when the stream may go on until it has done all that was submitted before. */
static double run_gated(const struct graph_bench *b, unsigned n,
                        void (*submit)(const struct graph_bench *b))
{
    double ns = 0;

    for (unsigned i = 0; i < n; i++) {
        aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
        uint64_t start;

        CHECK(aclrtValueWrite(b->word, 0, 0, b->gate));
        CHECK(aclrtSynchronizeStream(b->gate));
        CHECK(aclrtValueWait(b->word, 1, ACL_STREAM_WAIT_VALUE_EQ, b->stream));
        submit(b);
        start = now_ns();
        CHECK(aclrtValueWrite(b->word, 1, 0, b->gate));
        while (status != ACL_STREAM_STATUS_COMPLETE)
            CHECK(aclrtStreamQuery(b->stream, &status));
        ns += (double)(now_ns() - start);
    }
    return ns / n;
}

static double run_model(void *arg, unsigned n)
{
    return run_gated(arg, n, submit_model);
}

static double run_ring(void *arg, unsigned n)
{
    return run_gated(arg, n, fill);
}

void rows_graph(void)
{
    const struct row row = {"24", "1,000 fills of 64 bytes as a graph; vs in the ring, submitted",
                            1.2};
    struct graph_bench b;
    const struct contest contest = {.value = run_model,
                                    .baseline = run_ring,
                                    .arg = &b,
                                    .n_value = 1,
                                    .n_baseline = 1,
                                    .rounds = count_of(500, 5)};
    struct result result;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&b.stream));
    CHECK(aclrtCreateStream(&b.gate));
    CHECK(aclrtMalloc((void **)&b.word, SMALL, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc((void **)&b.memory, (size_t)TASKS * SMALL, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclmdlRICaptureBegin(b.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    fill(&b);
    CHECK(aclmdlRICaptureEnd(b.stream, &b.model));
    result = contest_run(&row, &contest);
    result_emit(&result);
    CHECK(aclmdlRIDestroy(b.model));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
