/* Row 17: host memory is registered: remembering it, and exchanging its pages. */
#include "tests/bench/bench.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE       ((size_t)1 << 30)
#define SMOKE_SIZE ((size_t)1 << 24)
#define PINNED_NS  2e6

static size_t size_here(void)
{
    return options.smoke ? SMOKE_SIZE : SIZE;
}

static void *map_pages(int flags, int fd)
{
    void *p = mmap(NULL, size_here(), PROT_READ | PROT_WRITE, flags, fd, 0);

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

static double exchange_pages(void *arg, unsigned n)
{
    (void)n;
    return timed_register(arg, ACL_HOST_REG_MAPPED);
}

/* Shared pages of as much, and the copy. */
static double populate_and_copy(void *arg, unsigned n)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);
    uint64_t start;
    double ns;
    void *p;

    (void)n;
    if (fd < 0 || ftruncate(fd, (off_t)size_here()) != 0)
        die("no memory to share");
    start = now_ns();
    p = map_pages(MAP_SHARED, fd);
    memcpy(p, arg, size_here());
    ns = (double)(now_ns() - start);
    munmap(p, size_here());
    close(fd);
    return ns;
}

void rows_register(void)
{
    const struct row pinned = {
        .name = "17-pinned", .what = "register 1 GiB as PINNED; beside 2 ms", .budget = 1.0};
    const struct row mapped = {.name = "17-mapped",
                               .what = "register 1 GiB as MAPPED; beside populate and copy",
                               .budget = 1.3};
    struct contest contest = {.value = exchange_pages,
                              .baseline = populate_and_copy,
                              .n_value = 1,
                              .n_baseline = 1,
                              .rounds = count_of(10, 2)};
    double samples[100];
    unsigned n = count_of(100, 3);
    struct result results[2];
    void *p = map_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    memset(p, 1, size_here());
    for (unsigned i = 0; i < n; i++)
        samples[i] = timed_register(p, ACL_HOST_REG_PINNED);
    results[0] = result_of_samples(&pinned, samples, n, PINNED_NS);
    contest.arg = p;
    results[1] = contest_run(&mapped, &contest);
    results_emit_worst("17", results, 2);
    munmap(p, size_here());
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
