/* Row 9: big synchronous copies, beside memcpy between two host buffers. */
#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define SIZE (64u << 20)

/* Rounds until other memory is taken: which pages one gets makes several percent. */
#define FRESH 10

struct copy {
    char *host, *host2;
    void *device;
    unsigned used;
};

static char *new_buffer(int fill)
{
    char *p = malloc(SIZE);

    if (!p)
        die("out of memory");
    memset(p, fill, SIZE);
    return p;
}

static void buffers_new(struct copy *c)
{
    c->host = new_buffer(1);
    c->host2 = new_buffer(2);
    CHECK(aclrtMalloc(&c->device, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK(aclrtMemset(c->device, SIZE, 3, SIZE));
    CHECK(aclrtMemcpy(c->device, SIZE, c->host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    c->used = 0;
}

static void buffers_free(struct copy *c)
{
    CHECK(aclrtMemcpy(c->host2, SIZE, c->device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    if (memcmp(c->host, c->host2, SIZE) != 0)
        die("copied bytes differ");
    CHECK(aclrtFree(c->device));
    free(c->host);
    free(c->host2);
}

/* Before the copy of each round. */
static void renew_buffers(struct copy *c)
{
    if (c->used++ < FRESH)
        return;
    buffers_free(c);
    buffers_new(c);
}

static double timed_copy(void *dst, const void *src, aclrtMemcpyKind kind)
{
    uint64_t start = now_ns();

    CHECK(aclrtMemcpy(dst, SIZE, src, SIZE, kind));
    return (double)(now_ns() - start);
}

static double to_device(void *arg, unsigned n)
{
    struct copy *c = arg;

    (void)n;
    renew_buffers(c);
    return timed_copy(c->device, c->host, ACL_MEMCPY_HOST_TO_DEVICE);
}

static double to_host(void *arg, unsigned n)
{
    struct copy *c = arg;

    (void)n;
    renew_buffers(c);
    return timed_copy(c->host2, c->device, ACL_MEMCPY_DEVICE_TO_HOST);
}

static double run_memcpy(void *arg, unsigned n)
{
    struct copy *c = arg;
    uint64_t start = now_ns();

    (void)n;
    memcpy(c->host2, c->host, SIZE);
    __asm__ volatile("" : : "r"(c->host2) : "memory");
    return (double)(now_ns() - start);
}

static struct result run_contest(struct copy *c, const char *name, const char *what, side_fn side)
{
    struct row row = {.name = name, .what = what, .budget = 0.95, .at_least = true};
    struct contest contest = {
        .value = side,
        .baseline = run_memcpy,
        .arg = c,
        .n_value = 1,
        .n_baseline = 1,
        .rounds = count_of(200, 3),
    };

    return contest_run(&row, &contest);
}

void rows_copy(void)
{
    struct copy c;
    struct result results[2];

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    buffers_new(&c);
    results[0] =
        run_contest(&c, "9-h2d", "aclrtMemcpy 64 MiB host to device; ratio of rates", to_device);
    results[1] =
        run_contest(&c, "9-d2h", "aclrtMemcpy 64 MiB device to host; ratio of rates", to_host);
    results_emit_worst("9", results, 2);
    buffers_free(&c);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
