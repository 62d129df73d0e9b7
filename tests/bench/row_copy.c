/* Row 9: big copies, beside memcpy between two host buffers; also of strict devices. */
#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define SIZE (64u << 20)

/* Rounds until other memory is taken: which pages one gets makes several percent. */
#define FRESH 10

struct copy {
    char *host, *host2;
    void *pinned, *device;
    aclrtStream stream;
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
    CHECK(aclrtMallocHost(&c->pinned, SIZE));
    memset(c->pinned, 1, SIZE);
    CHECK(aclrtMalloc(&c->device, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK(aclrtMemset(c->device, SIZE, 3, SIZE));
    CHECK(aclrtMemcpy(c->device, SIZE, c->host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    c->used = 0;
}

static void buffers_free(struct copy *c)
{
    CHECK(aclrtMemcpy(c->host2, SIZE, c->device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    if (memcmp(c->host, c->host2, SIZE) != 0 || memcmp(c->host, c->pinned, SIZE) != 0)
        die("copied bytes differ");
    CHECK(aclrtFree(c->device));
    CHECK(aclrtFreeHost(c->pinned));
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

/* Until it is done. */
static double timed_async(struct copy *c, void *dst, const void *src, aclrtMemcpyKind kind)
{
    uint64_t start = now_ns();

    CHECK(aclrtMemcpyAsync(dst, SIZE, src, SIZE, kind, c->stream));
    CHECK(aclrtSynchronizeStream(c->stream));
    return (double)(now_ns() - start);
}

static double async_to_device(void *arg, unsigned n)
{
    struct copy *c = arg;

    (void)n;
    renew_buffers(c);
    return timed_async(c, c->device, c->host, ACL_MEMCPY_HOST_TO_DEVICE);
}

static double pinned_to_device(void *arg, unsigned n)
{
    struct copy *c = arg;

    (void)n;
    renew_buffers(c);
    return timed_async(c, c->device, c->pinned, ACL_MEMCPY_HOST_TO_DEVICE);
}

static double pinned_to_host(void *arg, unsigned n)
{
    struct copy *c = arg;

    (void)n;
    renew_buffers(c);
    return timed_async(c, c->pinned, c->device, ACL_MEMCPY_DEVICE_TO_HOST);
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
    struct row row = {.name = name, .what = what, .budget = BUDGET_NONE, .at_least = true};
    struct contest contest = {
        .value = side,
        .baseline = run_memcpy,
        .arg = c,
        .n_value = 1,
        .n_baseline = 1,
        .rounds = count_of(100, 3),
    };

    return contest_run(&row, &contest);
}

static void begin_rows(struct copy *c)
{
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&c->stream));
    buffers_new(c);
}

static void end_rows(struct copy *c)
{
    buffers_free(c);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}

void rows_copy(void)
{
    struct copy c;
    struct result results[5];

    begin_rows(&c);
    results[0] =
        run_contest(&c, "9-h2d", "aclrtMemcpy 64 MiB host to device; ratio of rates", to_device);
    results[1] =
        run_contest(&c, "9-d2h", "aclrtMemcpy 64 MiB device to host; ratio of rates", to_host);
    results[2] = run_contest(&c, "9-async", "aclrtMemcpyAsync 64 MiB to device; ratio of rates",
                             async_to_device);
    results[3] = run_contest(&c, "9-pin-h2d", "the same from pinned memory; ratio of rates",
                             pinned_to_device);
    results[4] =
        run_contest(&c, "9-pin-d2h", "the same to pinned memory; ratio of rates", pinned_to_host);
    results_emit_worst("9", results, 5);
    end_rows(&c);
}

void rows_copy_strict(void)
{
    struct copy c;
    struct result results[2];

    begin_rows(&c);
    results[0] = run_contest(&c, "9s-pin-h2d", "strict: 64 MiB from pinned memory; ratio of rates",
                             pinned_to_device);
    results[1] = run_contest(&c, "9s-pin-d2h", "strict: 64 MiB to pinned memory; ratio of rates",
                             pinned_to_host);
    results_emit_worst("9s", results, 2);
    end_rows(&c);
}
