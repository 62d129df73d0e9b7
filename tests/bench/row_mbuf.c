/* Row 6: a shared buffer, allocated and freed, in units of one system call. */
#include "tests/bench/bench.h"

#include "acl/acl_tdt_queue.h"

#define ALIVE 100 /* buffers, in the second contest */

struct buffers {
    size_t size;
    unsigned at_once; /* allocated before the first is freed */
    acltdtBuf buf[ALIVE];
};

static double alloc_and_free(void *arg, unsigned n)
{
    struct buffers *b = arg;
    unsigned failed = 0;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i += b->at_once) {
        for (unsigned j = 0; j < b->at_once; j++)
            failed += acltdtAllocBuf(b->size, ACL_TDT_NORMAL_MEM, &b->buf[j]) != ACL_SUCCESS;
        for (unsigned j = 0; j < b->at_once; j++)
            failed += acltdtFreeBuf(b->buf[j]) != ACL_SUCCESS;
    }
    start = now_ns() - start;
    if (failed)
        die("%u calls on shared buffers failed", failed);
    return (double)start / n;
}

static struct result contest_of(const struct row *row, size_t size, unsigned at_once)
{
    struct buffers b = {.size = size, .at_once = at_once};
    struct contest contest = {
        .value = alloc_and_free,
        .baseline = side_getppid,
        .arg = &b,
        .n_value = 10000,
        .n_baseline = 500,
        .rounds = count_of(1000, 20),
    };

    return contest_run(row, &contest);
}

void rows_mbuf(void)
{
    static const struct row small = {"6", "mbuf: alloc + free, 64 bytes", BUDGET_NONE, false};
    static const struct row page = {"6-4k", "mbuf: alloc + free, 4 KiB", BUDGET_NONE, false};
    static const struct row many = {"6-100", "mbuf: the same, 100 of 64 bytes at once", BUDGET_NONE,
                                    false};
    static const struct row large = {"6-4m", "mbuf: alloc + free, 4 MiB", BUDGET_NONE, false};
    struct result result;

    CHECK(aclInit(NULL));
    result = contest_of(&small, 64, 1);
    result_emit(&result);
    result = contest_of(&page, 4096, 1);
    result_emit(&result);
    result = contest_of(&many, 64, ALIVE);
    result_emit(&result);
    result = contest_of(&large, (size_t)4 << 20, 1);
    result_emit(&result);
    CHECK(aclFinalize());
}
