/* Row 17: host memory is registered, which is to remember its range. */
#include "tests/bench/bench.h"

#include <string.h>
#include <sys/mman.h>

#define SIZE       ((size_t)1 << 30)
#define SMOKE_SIZE ((size_t)1 << 24)
#define LIMIT_NS   2e6

static size_t size_here(void)
{
    return options.smoke ? SMOKE_SIZE : SIZE;
}

static void *map_pages(void)
{
    void *p = mmap(NULL, size_here(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        die("out of memory");
    return p;
}

static double timed_register(void *p, uint32_t flag)
{
    uint64_t start = now_ns();
    double ns;

    CHECK(aclrtHostRegisterV2(p, size_here(), flag));
    ns = (double)(now_ns() - start);
    CHECK(aclrtHostUnregister(p));
    return ns;
}

static struct result time_registering(const struct row *row, void *p, uint32_t flag)
{
    double samples[100];
    unsigned n = count_of(100, 3);

    for (unsigned i = 0; i < n; i++)
        samples[i] = timed_register(p, flag);
    return result_of_samples(row, samples, n, LIMIT_NS);
}

void rows_register(void)
{
    const struct row pinned = {
        .name = "17-pinned", .what = "register 1 GiB as PINNED; beside 2 ms", .budget = 1.0};
    const struct row mapped = {
        .name = "17-mapped", .what = "register 1 GiB as MAPPED; beside 2 ms", .budget = 1.0};
    struct result results[2];
    void *p = map_pages();

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    memset(p, 1, size_here());
    results[0] = time_registering(&pinned, p, ACL_HOST_REG_PINNED);
    results[1] = time_registering(&mapped, p, ACL_HOST_REG_MAPPED);
    results_emit_worst("17", results, 2);
    munmap(p, size_here());
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
