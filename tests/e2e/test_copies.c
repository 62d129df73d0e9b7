/*
 * Copies and fills beyond the plain ones: rows, batches, descriptors, offsets, words of 32 bits,
 * symbols. The plain ones are in test_memory.c.
 *
 * Skipped under TSan: the test asks one call after the other.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl_npud_kernel.h"
#include "device_bytes.h"
#include "tests/common/harness.h"
#include "tests/e2e/pattern.h"

#define KIB      ((size_t)1 << 10)
#define PAGE     ((size_t)4096)
#define NULL_ARG ACL_ERROR_INVALID_PARAM
#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define NO       ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define UNBOUND  ACL_ERROR_RT_CONTEXT_NULL
#define H2D      ACL_MEMCPY_HOST_TO_DEVICE
#define D2H      ACL_MEMCPY_DEVICE_TO_HOST
#define D2D      ACL_MEMCPY_DEVICE_TO_DEVICE
#define INNER    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE

enum place { PAGEABLE, PINNED, DEVICE, MANAGED, PLACES };

#define SIZE (64 * KIB)

static aclrtStream stream, other;
static unsigned char *from[PLACES], *to[PLACES], *freed;
static unsigned char pageable[2][SIZE], bytes[SIZE];

static unsigned char *device_new(size_t size)
{
    void *p;

    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static unsigned char *place_new(enum place place, bool second)
{
    void *p = pageable[second];

    if (place == PINNED)
        OK(aclrtMallocHost(&p, SIZE));
    else if (place == DEVICE)
        OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    else if (place == MANAGED)
        OK(aclrtMemAllocManaged(&p, SIZE, ACL_RT_MEM_ATTACH_GLOBAL));
    return p;
}

static void set_up_test(void)
{
    npud_setup();
    streams_open(&stream, &other);
    for (int i = 0; i < PLACES; i++) {
        from[i] = place_new(i, false);
        to[i] = place_new(i, true);
        fill_pattern(bytes, SIZE, (unsigned)i);
        device_put(from[i], bytes, SIZE);
        OK(aclrtMemset(to[i], SIZE, 0, SIZE));
    }
    freed = device_new(SIZE);
    OK(aclrtFree(freed));
}

static void *unbound_call(void *arg)
{
    ((void (*)(void))(uintptr_t)arg)();
    return NULL;
}

/* Call it in a thread that has no context. */
static void call_unbound(void (*calls)(void))
{
    thread_call(unbound_call, (void *)(uintptr_t)calls);
}

static aclrtStream destroyed_stream(void)
{
    aclrtStream s;

    OK(aclrtCreateStream(&s));
    OK(aclrtDestroyStream(s));
    return s;
}

static aclrtStream foreign_stream(void)
{
    aclrtContext mine, another;
    aclrtStream s;

    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&another, 0));
    OK(aclrtCreateStream(&s));
    OK(aclrtSetCurrentContext(mine));
    return s;
}

/* --- rows --- */

static const struct {
    size_t dpitch, spitch, width, height;
} shapes[] = {
    {100, 80, 64, 50}, /* odd pitches */
    {64, 64, 64, 100}, /* one piece */
    {64, 100, 64, 100}, {100, 64, 64, 100},    {300, 200, 1, 33},
    {7, 5000, 7, 1}, /* one row is one piece whatever the pitches */
    {1, 1, 1, 1},       {SIZE, SIZE, SIZE, 1}, {4096, 4096, 4095, 16},
};

static bool holds_rows(const void *at, int shape, unsigned seed)
{
    const unsigned char *p = device_bytes(at, SIZE);
    size_t width = shapes[shape].width, pitch = shapes[shape].dpitch;
    const size_t last = (shapes[shape].height - 1) * pitch + width;

    for (size_t i = 0; i < SIZE; i++) {
        size_t row = i / pitch, column = i % pitch;
        bool copied = i < last && column < width;

        if (p[i] != (copied ? pattern_at(row * shapes[shape].spitch + column, seed) : 0))
            return false;
    }
    return true;
}

static aclError copy_rows(bool async, unsigned char *dst, const unsigned char *src, int i,
                          aclrtMemcpyKind kind)
{
    if (!async)
        return aclrtMemcpy2d(dst, shapes[i].dpitch, src, shapes[i].spitch, shapes[i].width,
                             shapes[i].height, kind);
    return aclrtMemcpy2dAsync(dst, shapes[i].dpitch, src, shapes[i].spitch, shapes[i].width,
                              shapes[i].height, kind, stream);
}

static bool is_host(enum place p)
{
    return p == PAGEABLE || p == PINNED;
}

/* What a copy between two places answers, with a kind that lets the addresses decide. */
static aclError expected_rows(bool async, enum place src, enum place dst)
{
    if (is_host(src) && is_host(dst))
        return PARAM;
    return src == DEVICE && dst == DEVICE && !async ? PARAM : 0;
}

START_TEST(rows_go_where_they_belong)
{
    int src = _i / PLACES % PLACES, dst = _i % PLACES;
    bool async = _i >= PLACES * PLACES;

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        aclError expected = expected_rows(async, src, dst);
        aclError error = copy_rows(async, to[dst], from[src], i, ACL_MEMCPY_DEFAULT);

        ck_assert_msg(error == expected, "%d to %d: %d", src, dst, error);
        OK(aclrtSynchronizeStream(stream));
        ck_assert(error == 0 ? holds_rows(to[dst], i, (unsigned)src)
                             : all_are(device_bytes(to[dst], SIZE), SIZE, 0));
        OK(aclrtMemset(to[dst], SIZE, 0, SIZE));
    }
}
END_TEST

#define ROWS(dst, dp, src, sp, w, h, kind)                                                         \
    (_i ? aclrtMemcpy2dAsync(dst, dp, src, sp, w, h, kind, stream)                                 \
        : aclrtMemcpy2d(dst, dp, src, sp, w, h, kind))

/* _i: the asynchronous form. */
START_TEST(rows_are_checked)
{
    unsigned char *d = to[DEVICE], *h = from[PINNED];

    OK(ROWS(NULL, 0, NULL, 0, 0, 1, 99));
    OK(ROWS(NULL, 0, NULL, 0, 1, 0, 99));
    FAILS_SAYING(NULL_ARG, "dst", ROWS(NULL, 8, h, 8, 8, 2, H2D));
    FAILS_SAYING(NULL_ARG, "src", ROWS(d, 8, NULL, 8, 8, 2, H2D));
    FAILS_SAYING(NULL_ARG, "is more than dpitch", ROWS(d, 7, h, 8, 8, 2, H2D));
    FAILS(NULL_ARG, ROWS(d, 8, h, 7, 8, 2, H2D));
    FAILS(NULL_ARG, ROWS(d, 0, h, 8, 8, 2, H2D));
    for (int kind = -1; kind < 9; kind++)
        if (kind < H2D || kind > ACL_MEMCPY_DEFAULT)
            FAILS_SAYING(NULL_ARG, "kind", ROWS(d, 8, h, 8, 8, 2, kind));
        else if (kind != D2D)
            OK(ROWS(d, 8, h, 8, 8, 2, kind));
    if (_i)
        OK(ROWS(d, 8, from[DEVICE], 8, 8, 2, D2D));
    else
        FAILS_SAYING(NO, "use aclrtMemcpy2dAsync", ROWS(d, 8, from[DEVICE], 8, 8, 2, D2D));
    FAILS_SAYING(PARAM, "at most", ROWS(d, 5000001, h, 5000001, 5000001, 1, H2D));
    FAILS_SAYING(PARAM, "at most", ROWS(d, 1, h, 1, 1, 5242881, H2D));
    FAILS_SAYING(PARAM, "leave the allocation", ROWS(d, 5000000, h, 5000000, 5000000, 1, H2D));
    FAILS_SAYING(PARAM, "leave the allocation", ROWS(d, SIZE_MAX, h, 8, 8, 5242880, H2D));
    FAILS_SAYING(PARAM, "leave the allocation", ROWS(d, SIZE, h, 64, 33, 2, H2D));
    OK(ROWS(d, SIZE, h, 32, 32, 1, H2D));
    OK(ROWS(d, KIB, h, KIB, KIB - 9, SIZE / KIB, H2D));
    FAILS_SAYING(PARAM, "dst: ", ROWS(d, KIB, h, KIB, KIB - 9, SIZE / KIB + 1, H2D));
    FAILS_SAYING(PARAM, "src: ", ROWS(d, 8, h, SIZE, 8, 3, H2D));
    FAILS_SAYING(PARAM, "was freed", ROWS(freed, 8, h, 8, 8, 2, H2D));
    FAILS_SAYING(PARAM, "must be", ROWS(to[PINNED], 8, h, 8, 8, 2, ACL_MEMCPY_DEFAULT));
    ck_assert(all_are(device_bytes(to[PINNED], SIZE), SIZE, 0));
}
END_TEST

static void rows_unbound(void)
{
    unsigned char *d = to[DEVICE], *h = from[PINNED];

    OK(aclrtMemcpy2d(NULL, 0, NULL, 0, 0, 0, 0));
    FAILS(NULL_ARG, aclrtMemcpy2d(d, 7, h, 8, 8, 2, H2D));
    FAILS(PARAM, aclrtMemcpy2d(d, 1, h, 1, 1, 5242881, H2D));
    FAILS(UNBOUND, aclrtMemcpy2d(d, 8, h, 8, 8, 2, H2D));
    FAILS(UNBOUND, aclrtMemcpy2dAsync(d, 8, h, 8, 8, 2, H2D, NULL));
}

START_TEST(rows_need_a_context_and_its_stream)
{
    unsigned char *d = to[DEVICE], *h = from[PINNED];

    call_unbound(rows_unbound);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtMemcpy2dAsync(d, 8, h, 8, 8, 2, H2D, destroyed_stream()));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtMemcpy2dAsync(d, 8, h, 8, 8, 2, H2D, foreign_stream()));
}
END_TEST

/* Pageable memory makes the call wait for the stream; other rows wait for their turn. */
START_TEST(rows_keep_their_place_in_the_stream)
{
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemcpy2dAsync(to[DEVICE], 100, from[PINNED], 80, 64, 50, H2D, stream));
    ck_assert(all_are(device_bytes(to[DEVICE], SIZE), SIZE, 0));
    stream_let_go(gate);
    OK(aclrtMemcpy2dAsync(to[PAGEABLE], 100, to[DEVICE], 100, 64, 50, D2H, stream));
    ck_assert(holds_rows(to[DEVICE], 0, PINNED));
    ck_assert(holds_rows(to[PAGEABLE], 0, PINNED));
}
END_TEST

START_TEST(rows_between_devices_need_access)
{
    unsigned char *far;

    OK(aclrtSetDevice(1));
    far = device_new(SIZE);
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
          aclrtMemcpy2dAsync(far, 100, from[DEVICE], 80, 64, 50, D2D, stream));
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemset(far, SIZE, 0, SIZE));
    OK(aclrtMemcpy2dAsync(far, 100, from[DEVICE], 80, 64, 50, D2D, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_rows(far, 0, DEVICE));
}
END_TEST

/* More rows than the ring of a stream has entries. */
START_TEST(many_rows)
{
    size_t rows = 20000, width = 60, pitch = 64;
    unsigned char *a = device_new(rows * pitch), *b = device_new(rows * pitch);
    unsigned char *copy = malloc(rows * pitch);

    fill_pattern(copy, rows * pitch, 9);
    device_put(a, copy, rows * pitch);
    OK(aclrtMemset(b, rows * pitch, 0, rows * pitch));
    OK(aclrtMemcpy2dAsync(b, pitch, a, pitch, width, rows, D2D, stream));
    OK(aclrtSynchronizeStream(stream));
    device_get(copy, b, rows * pitch);
    for (size_t i = 0; i < rows * pitch; i++)
        ck_assert_uint_eq(copy[i], i % pitch < width ? pattern_at(i, 9) : 0);
    free(copy);
}
END_TEST

/* --- batches --- */

enum { BATCH = 6 };

struct batch {
    void *dsts[BATCH], *srcs[BATCH];
    size_t maxs[BATCH], sizes[BATCH], indexes[BATCH];
    aclrtMemcpyBatchAttr attrs[BATCH];
    size_t n, n_attrs, failed;
};

static const aclrtMemLocation locations[PLACES] = {
    [PAGEABLE] = {.type = ACL_MEM_LOCATION_TYPE_HOST},
    [PINNED] = {.type = ACL_MEM_LOCATION_TYPE_HOST},
    [DEVICE] = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    [MANAGED] = {.type = ACL_MEM_LOCATION_TYPE_MANAGED},
};

/* Entries of 1000 bytes, one behind the other, with one attribute. */
static struct batch batch_of(enum place src, enum place dst)
{
    struct batch b = {.n = BATCH, .n_attrs = 1, .failed = 77};

    b.attrs[0] = (aclrtMemcpyBatchAttr){.dstLoc = locations[dst], .srcLoc = locations[src]};
    for (int i = 0; i < BATCH; i++) {
        b.dsts[i] = to[dst] + (size_t)i * 1000;
        b.srcs[i] = from[src] + (size_t)i * 1000;
        b.maxs[i] = b.sizes[i] = 1000;
    }
    return b;
}

enum form { BLOCKING, ASYNC, BLOCKING_V2, ASYNC_V2, FORMS };

static aclError copy_batch_on(enum form form, struct batch *b, aclrtStream s)
{
    switch (form) {
    case BLOCKING:
        return aclrtMemcpyBatch(b->dsts, b->maxs, b->srcs, b->sizes, b->n, b->attrs, b->indexes,
                                b->n_attrs, &b->failed);
    case ASYNC:
        return aclrtMemcpyBatchAsync(b->dsts, b->maxs, b->srcs, b->sizes, b->n, b->attrs,
                                     b->indexes, b->n_attrs, &b->failed, s);
    case BLOCKING_V2:
        return aclrtMemcpyBatchV2(b->dsts, b->maxs, b->srcs, b->sizes, b->n, b->attrs, b->indexes,
                                  b->n_attrs);
    default:
        return aclrtMemcpyBatchAsyncV2(b->dsts, b->maxs, b->srcs, b->sizes, b->n, b->attrs,
                                       b->indexes, b->n_attrs, s);
    }
}

static aclError copy_batch(enum form form, struct batch *b)
{
    return copy_batch_on(form, b, stream);
}

static bool is_v2(enum form form)
{
    return form == BLOCKING_V2 || form == ASYNC_V2;
}

static void expect_failed(enum form form, const struct batch *b, size_t failed)
{
    if (!is_v2(form))
        ck_assert_uint_eq(b->failed, failed);
}

static bool batch_is_allowed(enum place src, enum place dst)
{
    return !(is_host(src) && is_host(dst)) && !(src == DEVICE && dst == DEVICE);
}

START_TEST(batches_copy_between_host_and_device)
{
    for (int pair = 0; pair < PLACES * PLACES; pair++) {
        enum place src = pair / PLACES, dst = pair % PLACES;
        struct batch b = batch_of(src, dst);
        bool allowed = batch_is_allowed(src, dst);
        aclError error = copy_batch(_i, &b);

        ck_assert_msg(error == (allowed ? 0 : PARAM), "%d to %d: %d", src, dst, error);
        expect_failed(_i, &b, allowed ? SIZE_MAX : 0);
        OK(aclrtSynchronizeStream(stream));
        ck_assert(allowed ? holds_pattern(device_bytes(to[dst], BATCH * 1000), BATCH * 1000, src)
                          : all_are(device_bytes(to[dst], BATCH * 1000), BATCH * 1000, 0));
        ck_assert(all_are(device_bytes(to[dst] + BATCH * 1000, 1000), 1000, 0));
        OK(aclrtMemset(to[dst], SIZE, 0, SIZE));
    }
}
END_TEST

/* Entry 0 and 1 go to the device, 2 to 4 into managed memory, 5 from it. */
START_TEST(attributes_hold_to_the_next)
{
    struct batch b = batch_of(PINNED, DEVICE);

    b.n_attrs = 3;
    b.indexes[1] = 2;
    b.indexes[2] = 5;
    b.attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA; /* counts as host, with any id */
    b.attrs[1].srcLoc.id = 3;
    b.attrs[1].dstLoc = locations[MANAGED];
    b.attrs[2].srcLoc = locations[MANAGED];
    b.attrs[2].dstLoc = locations[PAGEABLE];
    for (int i = 2; i < 5; i++)
        b.dsts[i] = to[MANAGED] + i * 1000;
    b.dsts[5] = to[PAGEABLE];
    b.srcs[5] = from[MANAGED];
    OK(copy_batch(_i, &b));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(device_bytes(to[DEVICE], 2000), 2000, PINNED));
    ck_assert(all_are(device_bytes(to[DEVICE] + 2000, 4000), 4000, 0));
    ck_assert(all_are(device_bytes(to[MANAGED], 2000), 2000, 0));
    for (size_t i = 2000; i < 5000; i++)
        ck_assert_uint_eq(to[MANAGED][i], pattern_at(i, PINNED));
    ck_assert(holds_pattern(device_bytes(to[PAGEABLE], 1000), 1000, MANAGED));
}
END_TEST

/* Refused, nothing is copied, and the bad entry is named. */
static void expect_refused(enum form form, struct batch *b, aclError code, const char *words,
                           size_t failed)
{
    FAILS_SAYING(code, words, copy_batch(form, b));
    expect_failed(form, b, failed);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(device_bytes(to[DEVICE], SIZE), SIZE, 0));
}

static void null_arrays(enum form form)
{
    struct batch b = batch_of(PINNED, DEVICE);
    size_t *maxs = b.maxs, *sizes = b.sizes, *indexes = b.indexes, failed = 0;

#define WITH(d, m, s, z, a, x)                                                                     \
    (form == BLOCKING   ? aclrtMemcpyBatch(d, m, s, z, BATCH, a, x, 1, &failed)                    \
     : form == ASYNC    ? aclrtMemcpyBatchAsync(d, m, s, z, BATCH, a, x, 1, &failed, stream)       \
     : form == ASYNC_V2 ? aclrtMemcpyBatchAsyncV2(d, m, s, z, BATCH, a, x, 1, stream)              \
                        : aclrtMemcpyBatchV2(d, m, s, z, BATCH, a, x, 1))
    FAILS_SAYING(NULL_ARG, "dsts", WITH(NULL, maxs, b.srcs, sizes, b.attrs, indexes));
    FAILS_SAYING(NULL_ARG, "destMaxs", WITH(b.dsts, NULL, b.srcs, sizes, b.attrs, indexes));
    FAILS_SAYING(NULL_ARG, "srcs", WITH(b.dsts, maxs, NULL, sizes, b.attrs, indexes));
    FAILS_SAYING(NULL_ARG, "sizes", WITH(b.dsts, maxs, b.srcs, NULL, b.attrs, indexes));
    FAILS_SAYING(NULL_ARG, "attrs", WITH(b.dsts, maxs, b.srcs, sizes, NULL, indexes));
    FAILS_SAYING(NULL_ARG, "attrsIndexes", WITH(b.dsts, maxs, b.srcs, sizes, b.attrs, NULL));
#undef WITH
    ck_assert_uint_eq(failed, is_v2(form) ? 0 : SIZE_MAX);
}

START_TEST(null_in_batches)
{
    struct batch b = batch_of(PINNED, DEVICE);

    null_arrays(_i);
    if (_i == BLOCKING)
        FAILS_SAYING(
            NULL_ARG, "failIndex",
            aclrtMemcpyBatch(b.dsts, b.maxs, b.srcs, b.sizes, BATCH, b.attrs, b.indexes, 1, NULL));
    if (_i == ASYNC)
        FAILS_SAYING(NULL_ARG, "failIndex",
                     aclrtMemcpyBatchAsync(b.dsts, b.maxs, b.srcs, b.sizes, BATCH, b.attrs,
                                           b.indexes, 1, NULL, stream));
    b.srcs[3] = NULL;
    expect_refused(_i, &b, PARAM, "src is NULL", 3);
    b.dsts[2] = NULL;
    expect_refused(_i, &b, PARAM, "dst is NULL", 2);
}
END_TEST

START_TEST(batches_are_checked)
{
    struct batch good = batch_of(PINNED, DEVICE), b = good;

    b.n = 0;
    expect_refused(_i, &b, NULL_ARG, "numBatches", SIZE_MAX);
    b = good;
    b.maxs[4] = 999;
    expect_refused(_i, &b, NULL_ARG, "destMaxs[4]", 4);
    b = good;
    b.attrs[0].rsv[15] = 1;
    expect_refused(_i, &b, NULL_ARG, "rsv", SIZE_MAX);
    b = good;
    b.n_attrs = 0;
    expect_refused(_i, &b, PARAM, "numAttrs", SIZE_MAX);
    b.n_attrs = BATCH;
    b.n = BATCH - 1;
    expect_refused(_i, &b, PARAM, "numAttrs", SIZE_MAX);
}
END_TEST

/* `bytes` at the end of a page, behind which nothing can be read. */
static void *at_the_end_of_a_page(const void *source, size_t size)
{
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert(page != MAP_FAILED);
    OK(mprotect(page + PAGE, PAGE, PROT_NONE));
    return memcpy(page + PAGE - size, source, size);
}

START_TEST(counts_are_checked_before_arrays_are_read)
{
    static const size_t counts[] = {BATCH + 1, 4097, SIZE_MAX / 8, SIZE_MAX};
    struct batch b = batch_of(PINNED, DEVICE), *own = &b;
    aclrtMemcpyBatchAttr *attrs = at_the_end_of_a_page(b.attrs, sizeof(b.attrs[0]));
    size_t *sizes = at_the_end_of_a_page(b.sizes, sizeof(b.sizes)), failed;
    bool blocking = _i == BLOCKING || _i == BLOCKING_V2;

#define WITH(n, k)                                                                                 \
    (_i == BLOCKING ? aclrtMemcpyBatch(own->dsts, sizes, own->srcs, sizes, n, attrs, own->indexes, \
                                       k, &failed)                                                 \
     : _i == ASYNC  ? aclrtMemcpyBatchAsync(own->dsts, sizes, own->srcs, sizes, n, attrs,          \
                                            own->indexes, k, &failed, stream)                      \
     : _i == ASYNC_V2                                                                              \
         ? aclrtMemcpyBatchAsyncV2(own->dsts, sizes, own->srcs, sizes, n, attrs, own->indexes, k,  \
                                   stream)                                                         \
         : aclrtMemcpyBatchV2(own->dsts, sizes, own->srcs, sizes, n, attrs, own->indexes, k))
    OK(WITH(BATCH, 1));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        FAILS_SAYING(PARAM, "numAttrs", WITH(BATCH, counts[i]));
        if (blocking && i > 0) /* the others have no limit */
            FAILS_SAYING(PARAM, "4096", WITH(counts[i], 1));
    }
#undef WITH
    munmap((char *)(attrs + 1) - PAGE, 2 * PAGE);
    munmap((char *)(sizes + BATCH) - PAGE, 2 * PAGE);
}
END_TEST

START_TEST(indexes_of_attributes_rise_from_0)
{
    static const struct {
        size_t n, indexes[3];
        bool good;
    } rows[] = {
        {1, {0}, true},       {1, {1}, false},       {2, {0, 1}, true},
        {2, {0, 0}, false},   {2, {0, 6}, false},    {2, {0, SIZE_MAX}, false},
        {3, {0, 4, 5}, true}, {3, {0, 4, 4}, false}, {3, {0, 4, 3}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct batch b = batch_of(PINNED, DEVICE);

        b.n_attrs = rows[i].n;
        memcpy(b.indexes, rows[i].indexes, sizeof(rows[i].indexes));
        b.attrs[1] = b.attrs[2] = b.attrs[0];
        if (rows[i].good)
            continue;
        expect_refused(_i, &b, PARAM, "attrsIndexes", SIZE_MAX);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct batch b = batch_of(PINNED, DEVICE);

        b.n_attrs = rows[i].n;
        memcpy(b.indexes, rows[i].indexes, sizeof(rows[i].indexes));
        b.attrs[1] = b.attrs[2] = b.attrs[0];
        if (rows[i].good)
            OK(copy_batch(_i, &b));
    }
}
END_TEST

START_TEST(locations_are_as_declared)
{
    static const struct {
        aclrtMemLocation dst, src;
    } wrong[] = {
        {{0, ACL_MEM_LOCATION_TYPE_HOST}, {0, ACL_MEM_LOCATION_TYPE_HOST}},
        {{1, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}},
        {{UINT32_MAX, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}},
        {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_DEVICE}},
        {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED}},
        {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_MANAGED}},
        {{0, ACL_MEM_LOCATION_TYPE_MANAGED}, {0, ACL_MEM_LOCATION_TYPE_HOST}},
        {{0, 5}, {0, ACL_MEM_LOCATION_TYPE_HOST}},
        {{0, -1}, {0, ACL_MEM_LOCATION_TYPE_HOST}},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct batch b = batch_of(PINNED, DEVICE);

        b.n_attrs = 2;
        b.indexes[1] = 3;
        b.attrs[1] = (aclrtMemcpyBatchAttr){.dstLoc = wrong[i].dst, .srcLoc = wrong[i].src};
        expect_refused(_i, &b, PARAM, "its attribute says", 3);
    }
}
END_TEST

START_TEST(entries_stay_within_their_memory)
{
    struct batch b = batch_of(PINNED, DEVICE);

    b.srcs[5] = from[PINNED] + SIZE - 999;
    expect_refused(_i, &b, PARAM, "leave the allocation", 5);
    b.dsts[4] = freed;
    expect_refused(_i, &b, PARAM, "was freed", 4);
}
END_TEST

/* Nothing at all is a success, whatever the rest is; single entries are passed over, or refused. */
START_TEST(entries_of_no_bytes)
{
    struct batch b = batch_of(PINNED, DEVICE);

    memset(b.sizes, 0, sizeof(b.sizes));
    b.n_attrs = 99;
    OK(copy_batch(_i, &b));
    expect_failed(_i, &b, SIZE_MAX);
    b = batch_of(PINNED, DEVICE);
    b.sizes[1] = 0;
    b.dsts[1] = NULL;
    if (_i == ASYNC || _i == ASYNC_V2) {
        expect_refused(_i, &b, PARAM, "the size is 0", 1);
        return;
    }
    OK(copy_batch(_i, &b));
    ck_assert(holds_pattern(device_bytes(to[DEVICE], 1000), 1000, PINNED));
    ck_assert(all_are(device_bytes(to[DEVICE] + 1000, 1000), 1000, 0));
}
END_TEST

START_TEST(blocking_batches_have_a_limit)
{
    enum { N = 4097 };
    static void *dsts[N], *srcs[N];
    static size_t sizes[N];
    aclrtMemcpyBatchAttr attr = {.dstLoc = locations[DEVICE], .srcLoc = locations[PINNED]};
    size_t zero = 0, failed;

    for (size_t i = 0; i < N; i++) {
        dsts[i] = to[DEVICE] + i * 8;
        srcs[i] = from[PINNED] + i * 8;
        sizes[i] = 8;
    }
    FAILS_SAYING(PARAM, "4096",
                 aclrtMemcpyBatch(dsts, sizes, srcs, sizes, N, &attr, &zero, 1, &failed));
    OK(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, N - 1, &attr, &zero, 1, &failed));
    ck_assert(holds_pattern(device_bytes(to[DEVICE], (N - 1) * 8), (N - 1) * 8, PINNED));
    OK(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, N, &attr, &zero, 1, &failed, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(device_bytes(to[DEVICE], N * 8), N * 8, PINNED));
}
END_TEST

static void batches_unbound(void)
{
    for (int form = 0; form < FORMS; form++) {
        struct batch b = batch_of(PINNED, DEVICE);

        FAILS(UNBOUND, copy_batch_on(form, &b, NULL));
        expect_failed(form, &b, SIZE_MAX);
        b.n_attrs = 0;
        FAILS(PARAM, copy_batch_on(form, &b, NULL));
    }
}

START_TEST(batches_need_a_context_and_its_stream)
{
    struct batch b = batch_of(PINNED, DEVICE);

    call_unbound(batches_unbound);
    for (int form = ASYNC; form < FORMS; form += ASYNC_V2 - ASYNC) {
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, copy_batch_on(form, &b, destroyed_stream()));
        FAILS(ACL_ERROR_RT_STREAM_CONTEXT, copy_batch_on(form, &b, foreign_stream()));
    }
}
END_TEST

START_TEST(batches_keep_their_place_in_the_stream)
{
    struct batch b = batch_of(PINNED, DEVICE);
    aclrtEvent gate = stream_hold(stream);

    OK(copy_batch(_i ? ASYNC_V2 : ASYNC, &b));
    ck_assert(all_are(device_bytes(to[DEVICE], SIZE), SIZE, 0));
    stream_let_go(gate);
    b = batch_of(PAGEABLE, DEVICE); /* waits for the stream, then copies */
    b.n = 1;
    OK(copy_batch(_i ? ASYNC_V2 : ASYNC, &b));
    ck_assert(holds_pattern(device_bytes(to[DEVICE], 1000), 1000, PAGEABLE));
    ck_assert_uint_eq(device_byte(to[DEVICE] + 1000), pattern_at(1000, PINNED));
}
END_TEST

/* --- pinned memory only --- */

START_TEST(copies_with_condition_want_pinned_memory)
{
    OK(aclrtMemcpyAsyncWithCondition(to[DEVICE], SIZE, from[PINNED], SIZE, H2D, stream));
    OK(aclrtMemcpyAsyncWithCondition(to[PINNED], SIZE, to[DEVICE], SIZE, D2H, stream));
    OK(aclrtMemcpyAsyncWithCondition(to[MANAGED], SIZE, to[DEVICE], SIZE, D2D, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(device_bytes(to[PINNED], SIZE), SIZE, PINNED));
    ck_assert(holds_pattern(device_bytes(to[MANAGED], SIZE), SIZE, PINNED));
    FAILS_SAYING(
        PARAM, "src",
        aclrtMemcpyAsyncWithCondition(to[DEVICE], SIZE, from[PAGEABLE], SIZE, H2D, stream));
    FAILS_SAYING(PARAM, "aclrtMallocHost",
                 aclrtMemcpyAsyncWithCondition(to[PAGEABLE], SIZE, to[DEVICE], SIZE, D2H, stream));
    OK(aclrtMemcpyAsyncWithCondition(NULL, 0, NULL, 0, 99, stream));
    FAILS(NULL_ARG, aclrtMemcpyAsyncWithCondition(NULL, 8, from[PINNED], 8, H2D, stream));
    FAILS(NULL_ARG, aclrtMemcpyAsyncWithCondition(to[DEVICE], 8, from[PINNED], 8, INNER, stream));
    FAILS(PARAM, aclrtMemcpyAsyncWithCondition(to[DEVICE], 7, from[PINNED], 8, H2D, stream));
    FAILS(PARAM, aclrtMemcpyAsyncWithCondition(freed, 8, from[PINNED], 8, H2D, stream));
    FAILS(NO, aclrtMemcpyAsyncWithCondition(to[PINNED], 8, from[PINNED], 8, H2D, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtMemcpyAsyncWithCondition(to[DEVICE], 8, from[PINNED], 8, H2D, destroyed_stream()));
}
END_TEST

/* --- descriptors --- */

static size_t descriptor_size(void)
{
    size_t size = 0;

    OK(aclrtGetMemcpyDescSize(INNER, &size));
    ck_assert_uint_gt(size, 0);
    return size;
}

START_TEST(descriptors_copy_within_a_device)
{
    static const enum place kept_in[] = {PAGEABLE, PINNED, DEVICE};
    unsigned char *mine = from[DEVICE], *in_memory[] = {malloc(descriptor_size()), NULL, NULL};
    const unsigned char *got;
    size_t size = descriptor_size();

    for (int i = 0; i < 3; i++) {
        unsigned char *desc = i == 0 ? in_memory[0] : to[kept_in[i]];

        if (kept_in[i] == DEVICE)
            desc = device_new(size);
        OK(aclrtMemset(to[DEVICE], SIZE, 0, SIZE));
        OK(aclrtSetMemcpyDesc(desc, INNER, mine + 5, to[DEVICE], 1000, NULL));
        for (int again = 0; again < 2; again++)
            OK(aclrtMemcpyAsyncWithDesc(desc, INNER, stream));
        OK(aclrtSynchronizeStream(stream));
        got = device_bytes(to[DEVICE], SIZE);
        for (size_t at = 0; at < SIZE; at++)
            ck_assert_uint_eq(got[at], at < 1000 ? pattern_at(at + 5, DEVICE) : 0);
    }
    OK(aclrtSetMemcpyDesc(in_memory[0], INNER, mine, to[DEVICE], 0, NULL));
    OK(aclrtMemcpyAsyncWithDesc(in_memory[0], INNER, stream));
    free(in_memory[0]);
}
END_TEST

START_TEST(descriptors_are_checked)
{
    unsigned char *src = from[DEVICE], *dst = to[DEVICE], *desc = to[PINNED];
    size_t size;

    FAILS(NULL_ARG, aclrtGetMemcpyDescSize(INNER, NULL));
    FAILS(NULL_ARG, aclrtSetMemcpyDesc(NULL, INNER, src, dst, 8, NULL));
    FAILS(NULL_ARG, aclrtSetMemcpyDesc(desc, INNER, NULL, dst, 8, NULL));
    FAILS(NULL_ARG, aclrtSetMemcpyDesc(desc, INNER, src, NULL, 8, NULL));
    FAILS_SAYING(NULL_ARG, "config", aclrtSetMemcpyDesc(desc, INNER, src, dst, 8, &size));
    FAILS(NULL_ARG, aclrtMemcpyAsyncWithDesc(NULL, INNER, stream));
    for (int kind = -1; kind < 9; kind++) {
        if (kind == INNER)
            continue;
        FAILS(NO, aclrtGetMemcpyDescSize(kind, &size));
        FAILS(NO, aclrtSetMemcpyDesc(desc, kind, src, dst, 8, NULL));
        FAILS(NO, aclrtMemcpyAsyncWithDesc(desc, kind, stream));
    }
    FAILS_SAYING(PARAM, "memory of one device",
                 aclrtSetMemcpyDesc(desc, INNER, from[PINNED], dst, 8, NULL));
    FAILS_SAYING(PARAM, "memory of one device",
                 aclrtSetMemcpyDesc(desc, INNER, src, to[MANAGED], 8, NULL));
    FAILS_SAYING(PARAM, "leave the allocation",
                 aclrtSetMemcpyDesc(desc, INNER, src, dst, SIZE + 33, NULL));
    FAILS_SAYING(PARAM, "was freed", aclrtSetMemcpyDesc(desc, INNER, freed, dst, 8, NULL));
    FAILS_SAYING(PARAM, "desc", aclrtSetMemcpyDesc(freed, INNER, src, dst, 8, NULL));
    FAILS_SAYING(PARAM, "desc", aclrtSetMemcpyDesc(desc + SIZE - 8, INNER, src, dst, 8, NULL));
    FAILS_SAYING(PARAM, "is no descriptor", aclrtMemcpyAsyncWithDesc(desc, INNER, stream));
    FAILS_SAYING(PARAM, "was freed", aclrtMemcpyAsyncWithDesc(freed, INNER, stream));
}
END_TEST

/* What it names may go before it is used. */
START_TEST(descriptors_of_freed_memory)
{
    unsigned char *gone = device_new(SIZE), *desc = to[PINNED];

    OK(aclrtSetMemcpyDesc(desc, INNER, from[DEVICE], gone, 8, NULL));
    OK(aclrtFree(gone));
    FAILS_SAYING(PARAM, "was freed", aclrtMemcpyAsyncWithDesc(desc, INNER, stream));
}
END_TEST

/* --- offsets --- */

START_TEST(offsets_copy_within_a_device)
{
    void *dst = to[DEVICE];
    const void *src = from[DEVICE];
    const unsigned char *got;
    void **in_device = (void **)(void *)device_new(64);

    OK(aclrtMemcpyAsyncWithOffset(&dst, 1000, 40, &src, 1000, 7, INNER, stream));
    OK(aclrtSynchronizeStream(stream));
    got = device_bytes(to[DEVICE], 2000);
    for (size_t at = 0; at < 2000; at++)
        ck_assert_uint_eq(got[at], at >= 40 && at < 1040 ? pattern_at(at - 40 + 7, DEVICE) : 0);
    /* The pointer may come by the stream, too. */
    OK(aclrtMemset(to[DEVICE], SIZE, 0, SIZE));
    memcpy(to[PINNED], &dst, sizeof(dst));
    OK(aclnpudLaunchDelay(20000, 0, stream));
    OK(aclrtMemcpyAsync(in_device, 8, to[PINNED], 8, H2D, stream));
    OK(aclrtMemcpyAsyncWithOffset(in_device, SIZE, 0, &src, SIZE, 0, INNER, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(device_bytes(to[DEVICE], SIZE), SIZE, DEVICE));
}
END_TEST

START_TEST(offsets_are_checked)
{
    void *dst = to[DEVICE], *null = NULL, *host = to[PINNED], *gone = freed;
    const void *src = from[DEVICE], *null_src = NULL;

    OK(aclrtMemcpyAsyncWithOffset(NULL, 0, 0, NULL, 0, 0, 99, stream));
    FAILS(NULL_ARG, aclrtMemcpyAsyncWithOffset(NULL, 8, 0, &src, 8, 0, INNER, stream));
    FAILS(NULL_ARG, aclrtMemcpyAsyncWithOffset(&dst, 8, 0, NULL, 8, 0, INNER, stream));
    for (int kind = -1; kind < 9; kind++)
        if (kind != INNER)
            FAILS_SAYING(PARAM, "kind",
                         aclrtMemcpyAsyncWithOffset(&dst, 8, 0, &src, 8, 0, kind, stream));
    FAILS_SAYING(PARAM, "destMax",
                 aclrtMemcpyAsyncWithOffset(&dst, 7, 0, &src, 8, 0, INNER, stream));
    FAILS_SAYING(PARAM, "*dst is NULL",
                 aclrtMemcpyAsyncWithOffset(&null, 8, 0, &src, 8, 0, INNER, stream));
    FAILS_SAYING(PARAM, "*src is NULL",
                 aclrtMemcpyAsyncWithOffset(&dst, 8, 0, &null_src, 8, 0, INNER, stream));
    FAILS_SAYING(PARAM, "memory of one device",
                 aclrtMemcpyAsyncWithOffset(&host, 8, 0, &src, 8, 0, INNER, stream));
    FAILS_SAYING(PARAM, "leave the allocation",
                 aclrtMemcpyAsyncWithOffset(&dst, 8, SIZE + 32, &src, 8, 0, INNER, stream));
    FAILS_SAYING(PARAM, "leave the allocation",
                 aclrtMemcpyAsyncWithOffset(&dst, 8, 0, &src, 8, SIZE - 7 + 32, INNER, stream));
    FAILS_SAYING(PARAM, "was freed",
                 aclrtMemcpyAsyncWithOffset(&gone, 8, 0, &src, 8, 0, INNER, stream));
    FAILS_SAYING(
        PARAM, "was freed",
        aclrtMemcpyAsyncWithOffset((void **)(void *)freed, 8, 0, &src, 8, 0, INNER, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtMemcpyAsyncWithOffset(&dst, 8, 0, &src, 8, 0, INNER, destroyed_stream()));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(device_bytes(to[DEVICE], SIZE), SIZE, 0));
}
END_TEST

static void indirect_unbound(void)
{
    void *dst = to[DEVICE];
    const void *src = from[DEVICE];
    size_t size;

    OK(aclrtGetMemcpyDescSize(INNER, &size));
    FAILS(UNBOUND, aclrtSetMemcpyDesc(to[PINNED], INNER, from[DEVICE], to[DEVICE], 8, NULL));
    FAILS(UNBOUND, aclrtMemcpyAsyncWithDesc(to[PINNED], INNER, NULL));
    FAILS(UNBOUND, aclrtMemcpyAsyncWithOffset(&dst, 8, 0, &src, 8, 0, INNER, NULL));
}

START_TEST(indirect_copies_need_a_context)
{
    call_unbound(indirect_unbound);
}
END_TEST

/* --- words --- */

static bool words_are(const void *p, size_t n, uint32_t value)
{
    const uint32_t *words = device_bytes(p, n * sizeof(*words));

    for (size_t i = 0; i < n; i++)
        if (words[i] != value)
            return false;
    return true;
}

/* _i: the asynchronous form. */
#define SET_WORDS(p, size, value, n)                                                               \
    (_i ? aclrtMemsetD32Async(p, size, value, n, stream) : aclrtMemsetD32(p, size, value, n))

START_TEST(words_are_set)
{
    static const uint32_t values[] = {0, 1, 0x12345678, 0x80000000, 0x5a5a5a5a, UINT32_MAX};
    static const size_t counts[] = {1, 2, 7, 1023, 1024, 1025, 2048, 3333, SIZE / 4 - 2};

    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            for (int place = PINNED; place <= DEVICE; place++) {
                size_t n = counts[c];

                OK(aclrtMemset(to[place], SIZE, 0x33, SIZE));
                OK(SET_WORDS(to[place] + 4, n * 4, values[v], n));
                OK(aclrtSynchronizeStream(stream));
                ck_assert(words_are(to[place], 1, 0x33333333));
                ck_assert(words_are(to[place] + 4, n, values[v]));
                ck_assert(words_are(to[place] + 4 + n * 4, SIZE / 4 - 1 - n, 0x33333333));
            }
}
END_TEST

START_TEST(words_are_checked)
{
    unsigned char *d = to[DEVICE];

    OK(SET_WORDS(NULL, 0, 1, 0));
    FAILS(NULL_ARG, SET_WORDS(NULL, 8, 1, 2));
    for (int i = 1; i < 4; i++)
        FAILS_SAYING(NULL_ARG, "aligned", SET_WORDS(d + i, 8, 1, 2));
    FAILS_SAYING(NULL_ARG, "memSize", SET_WORDS(d, 7, 1, 2));
    FAILS_SAYING(NULL_ARG, "memSize", SET_WORDS(d, SIZE, 1, SIZE_MAX / 4 + 2));
    FAILS_SAYING(NULL_ARG, "use aclrtMemset", SET_WORDS(to[PAGEABLE], 8, 1, 2));
    FAILS_SAYING(NULL_ARG, "use aclrtMemset", SET_WORDS(to[MANAGED], 8, 1, 2));
    FAILS_SAYING(PARAM, "leave the allocation", SET_WORDS(d, SIZE + 36, 1, SIZE / 4 + 9));
    FAILS_SAYING(PARAM, "was freed", SET_WORDS(freed, 8, 1, 2));
    ck_assert(all_are(device_bytes(d, SIZE), SIZE, 0));
}
END_TEST

static void words_unbound(void)
{
    OK(aclrtMemsetD32(NULL, 0, 0, 0));
    FAILS(UNBOUND, aclrtMemsetD32(to[DEVICE], 8, 1, 2));
    FAILS(UNBOUND, aclrtMemsetD32Async(to[DEVICE], 8, 1, 2, NULL));
}

START_TEST(words_need_a_context_and_its_stream)
{
    call_unbound(words_unbound);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtMemsetD32Async(to[DEVICE], 8, 1, 2, destroyed_stream()));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtMemsetD32Async(to[DEVICE], 8, 1, 2, foreign_stream()));
}
END_TEST

/* Device memory in its turn, host memory at once. */
START_TEST(words_wait_for_their_turn)
{
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemsetAsync(to[DEVICE], SIZE, 0xff, SIZE, stream));
    OK(aclrtMemsetD32Async(to[DEVICE], SIZE, 0x01020304, SIZE / 4, stream));
    OK(aclrtMemsetD32Async(to[PINNED], SIZE, 0x01020304, SIZE / 4, stream));
    ck_assert(words_are(to[PINNED], SIZE / 4, 0x01020304));
    ck_assert(all_are(device_bytes(to[DEVICE], SIZE), SIZE, 0));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(words_are(to[DEVICE], SIZE / 4, 0x01020304));
}
END_TEST

/* --- symbols --- */

START_TEST(what_is_no_symbol_is_refused)
{
    static const int symbol = 1;
    const aclError none = ACL_ERROR_RT_SYMBOL_NOT_FOUND;
    size_t size;
    void *p;

    FAILS(none, aclrtGetSymbolAddress(&symbol, &p));
    FAILS(none, aclrtGetSymbolSize(&symbol, &size));
    FAILS(none, aclrtMemcpyFromSymbol(to[PINNED], 8, &symbol, 8, 0, D2H));
    FAILS(none, aclrtMemcpyFromSymbolAsync(to[PINNED], 8, &symbol, 8, 0, D2D, stream));
    FAILS(none, aclrtMemcpyToSymbol(&symbol, from[PINNED], 8, 0, H2D));
    FAILS(none, aclrtMemcpyToSymbolAsync(&symbol, from[PINNED], 8, 0, ACL_MEMCPY_DEFAULT, stream));
    FAILS(NULL_ARG, aclrtGetSymbolAddress(NULL, &p));
    FAILS(NULL_ARG, aclrtGetSymbolAddress(&symbol, NULL));
    FAILS(NULL_ARG, aclrtGetSymbolSize(NULL, &size));
    FAILS(NULL_ARG, aclrtGetSymbolSize(&symbol, NULL));
    FAILS(NULL_ARG, aclrtMemcpyFromSymbol(NULL, 8, &symbol, 8, 0, D2H));
    FAILS(NULL_ARG, aclrtMemcpyFromSymbol(to[PINNED], 8, NULL, 8, 0, D2H));
    FAILS(NULL_ARG, aclrtMemcpyFromSymbol(to[PINNED], 8, &symbol, 8, 0, H2D));
    FAILS(PARAM, aclrtMemcpyFromSymbol(to[PINNED], 7, &symbol, 8, 0, D2H));
    FAILS(NULL_ARG, aclrtMemcpyToSymbol(NULL, from[PINNED], 8, 0, H2D));
    FAILS(NULL_ARG, aclrtMemcpyToSymbol(&symbol, NULL, 8, 0, H2D));
    FAILS(NULL_ARG, aclrtMemcpyToSymbol(&symbol, from[PINNED], 8, 0, D2H));
    FAILS(NULL_ARG, aclrtMemcpyToSymbolAsync(&symbol, from[PINNED], 8, 0, D2H, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtMemcpyToSymbolAsync(&symbol, from[PINNED], 8, 0, H2D, destroyed_stream()));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtMemcpyFromSymbolAsync(to[PINNED], 8, &symbol, 8, 0, D2H, destroyed_stream()));
    OK(aclrtMemcpyToSymbol(NULL, NULL, 0, 0, 99));
    OK(aclrtMemcpyFromSymbol(NULL, 0, NULL, 0, 0, 99));
    OK(aclrtMemcpyToSymbolAsync(NULL, NULL, 0, 0, 99, NULL));
    OK(aclrtMemcpyFromSymbolAsync(NULL, 0, NULL, 0, 0, 99, NULL));
}
END_TEST

static uint32_t variable[4];
static const aclnpudVariable record = {sizeof(record), 0, "variable", variable, sizeof(variable)};

/* Copies before and behind a wait of the stream; its device address is like that of the device. */
START_TEST(a_symbol_is_copied_in_order)
{
    aclnpudVariable unusable = record;
    const uint32_t ones = 0x01010101;
    aclrtEvent gate;
    size_t size;
    void *p;

    unusable.size--;
    aclnpudVariableRegister(&unusable);
    aclnpudVariableRegister(NULL);
    FAILS(ACL_ERROR_RT_SYMBOL_NOT_FOUND, aclrtGetSymbolAddress(variable, &p));
    aclnpudVariableRegister(&record);
    aclnpudVariableRegister(&record);
    OK(aclrtGetSymbolAddress(variable, &p));
    OK(aclrtGetSymbolSize(variable, &size));
    ck_assert(p == variable && size == sizeof(variable));
    OK(aclrtMemcpyToSymbol(variable, &ones, 4, 4, H2D));
    ck_assert(variable[0] == 0 && variable[1] == ones);
    memset(from[PINNED], 2, 16);
    gate = stream_hold(stream);
    OK(aclrtMemcpyToSymbolAsync(variable, from[PINNED], 8, 8, H2D, stream));
    OK(aclrtMemcpyFromSymbolAsync(to[DEVICE], 16, variable, 16, 0, D2D, stream));
    OK(aclrtMemcpyToSymbolAsync(variable, from[PINNED], 4, 0, ACL_MEMCPY_DEFAULT, stream));
    ck_assert(variable[2] == 0 && variable[0] == 0);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(variable[0] == 2 * ones && variable[2] == 2 * ones);
    OK(aclrtMemcpy(variable, 16, to[DEVICE], 16, D2H));
    ck_assert(variable[0] == 0 && variable[1] == ones && variable[3] == 2 * ones);
    aclnpudVariableUnregister(&record);
    aclnpudVariableUnregister(&record);
    FAILS(ACL_ERROR_RT_SYMBOL_NOT_FOUND, aclrtGetSymbolAddress(variable, &p));
}
END_TEST

START_TEST(a_symbol_has_its_bounds)
{
    aclnpudVariable constant = record;

    constant.readOnly = 1;
    aclnpudVariableRegister(&record);
    FAILS(NULL_ARG, aclrtMemcpyToSymbol(variable, from[PINNED], 17, 0, H2D));
    FAILS(NULL_ARG, aclrtMemcpyToSymbolAsync(variable, from[PINNED], 1, 16, H2D, stream));
    FAILS(NULL_ARG, aclrtMemcpyFromSymbol(to[PINNED], 2, variable, 2, SIZE_MAX, D2H));
    FAILS(ACL_ERROR_RT_SYMBOL_NOT_FOUND,
          aclrtMemcpyFromSymbol(to[PINNED], 4, variable + 1, 4, 0, D2H));
    OK(aclrtMemcpyFromSymbol(to[PINNED], 16, variable, 16, 0, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpyFromSymbol(to[PINNED], 1, variable, 1, 15, D2D));
    aclnpudVariableUnregister(&record);
    aclnpudVariableRegister(&constant);
    FAILS(PARAM, aclrtMemcpyToSymbol(variable, from[PINNED], 4, 0, H2D));
    OK(aclrtMemcpyFromSymbol(to[PINNED], 16, variable, 16, 0, D2H));
    aclnpudVariableUnregister(&constant);
}
END_TEST

static void symbols_unbound(void)
{
    static const int symbol = 1;
    size_t size;
    void *p;

    FAILS(UNBOUND, aclrtGetSymbolAddress(&symbol, &p));
    FAILS(UNBOUND, aclrtGetSymbolSize(&symbol, &size));
    FAILS(UNBOUND, aclrtMemcpyFromSymbol(to[PINNED], 8, &symbol, 8, 0, D2H));
    FAILS(UNBOUND, aclrtMemcpyToSymbolAsync(&symbol, from[PINNED], 8, 0, H2D, NULL));
}

START_TEST(symbols_need_a_context)
{
    call_unbound(symbols_unbound);
}
END_TEST

/* --- tasks whose memory goes --- */

static aclError submit_any(int i, unsigned char *memory)
{
    void *dst = memory;
    const void *src = from[DEVICE];
    struct batch b = batch_of(PINNED, DEVICE);
    aclError error;

    switch (i) {
    case 0:
        return aclrtMemcpy2dAsync(memory, 100, from[DEVICE], 80, 64, 2, D2D, stream);
    case 1:
        b.dsts[BATCH - 1] = memory;
        return copy_batch(ASYNC, &b);
    case 2:
        return aclrtMemsetD32Async(memory, SIZE, 0x01020304, SIZE / 4, stream);
    case 3:
        error = aclrtSetMemcpyDesc(to[PINNED], INNER, from[DEVICE], memory, 8, NULL);
        return error != 0 ? error : aclrtMemcpyAsyncWithDesc(to[PINNED], INNER, stream);
    default:
        return aclrtMemcpyAsyncWithOffset(&dst, 8, 0, &src, 8, 0, INNER, stream);
    }
}

START_TEST(memory_that_goes_before_its_task_is_an_error)
{
    unsigned char *memory = device_new(SIZE);
    aclrtEvent gate = stream_hold(stream);

    OK(submit_any(_i, memory));
    OK(aclrtFree(memory));
    stream_let_go(gate);
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(stream));
    FAILS_SAYING(PARAM, "was freed", submit_any(_i, memory));
}
END_TEST

/* --- */

#define TAKEN   900 /* of a stream: it stands still */
#define APART   ((size_t)1024)
#define BUFFERS (40u) /* of 16 KiB at least, for what is on its way */

static size_t taken_size(unsigned i)
{
    return i * 37 % 300 + 1;
}

/* Thousands of small sources that are taken at the call are a few allocations of npud's. */
START_TEST(small_sources_share_buffers)
{
    unsigned char *device = device_new(2 * TAKEN * APART), *read = malloc(2 * TAKEN * APART),
                  at[300];
    aclrtEvent gates[2] = {stream_hold(stream), stream_hold(other)};
    uint32_t before = npud_ledger().fds;

    OK(aclrtMemset(device, 2 * TAKEN * APART, 0, 2 * TAKEN * APART));
    for (unsigned i = 0; i < 2 * TAKEN; i++) {
        memset(at, (int)(i % 251 + 1), taken_size(i));
        OK(aclrtMemcpyAsync(device + i * APART, APART, at, taken_size(i),
                            ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, i % 2 ? other : stream));
    }
    ck_assert_uint_le(npud_ledger().fds - before, BUFFERS);
    for (int i = 0; i < 2; i++)
        stream_let_go(gates[i]);
    OK(aclrtSynchronizeDevice());
    OK(aclrtMemcpy(read, 2 * TAKEN * APART, device, 2 * TAKEN * APART, D2H));
    for (unsigned i = 0; i < 2 * TAKEN; i++)
        for (size_t k = 0; k <= taken_size(i); k++)
            ck_assert_msg(read[i * APART + k] == (k < taken_size(i) ? i % 251 + 1 : 0),
                          "copy %u, byte %zu: %u", i, k, read[i * APART + k]);
    free(read);
}
END_TEST

static void add_rows(Suite *s)
{
    TCase *t = suite_case(s, "rows", 60, set_up_test, npud_teardown);

    tcase_add_loop_test(t, rows_go_where_they_belong, 0, 2 * PLACES * PLACES);
    tcase_add_loop_test(t, rows_are_checked, 0, 2);
    tcase_add_test(t, rows_need_a_context_and_its_stream);
    tcase_add_test(t, rows_keep_their_place_in_the_stream);
    tcase_add_test(t, rows_between_devices_need_access);
    tcase_add_test(t, many_rows);
}

static void add_batches(Suite *s)
{
    TCase *t = suite_case(s, "batches", 60, set_up_test, npud_teardown);

    tcase_add_loop_test(t, batches_copy_between_host_and_device, 0, FORMS);
    tcase_add_loop_test(t, attributes_hold_to_the_next, 0, FORMS);
    tcase_add_loop_test(t, null_in_batches, 0, FORMS);
    tcase_add_loop_test(t, batches_are_checked, 0, FORMS);
    tcase_add_loop_test(t, indexes_of_attributes_rise_from_0, 0, FORMS);
    tcase_add_loop_test(t, counts_are_checked_before_arrays_are_read, 0, FORMS);
    tcase_add_loop_test(t, locations_are_as_declared, 0, FORMS);
    tcase_add_loop_test(t, entries_stay_within_their_memory, 0, FORMS);
    tcase_add_loop_test(t, entries_of_no_bytes, 0, FORMS);
    tcase_add_test(t, blocking_batches_have_a_limit);
    tcase_add_test(t, batches_need_a_context_and_its_stream);
    tcase_add_loop_test(t, batches_keep_their_place_in_the_stream, 0, 2);
}

static void add_others(Suite *s)
{
    TCase *t = suite_case(s, "others", 60, set_up_test, npud_teardown);

    tcase_add_test(t, copies_with_condition_want_pinned_memory);
    tcase_add_test(t, descriptors_copy_within_a_device);
    tcase_add_test(t, descriptors_are_checked);
    tcase_add_test(t, descriptors_of_freed_memory);
    tcase_add_test(t, offsets_copy_within_a_device);
    tcase_add_test(t, offsets_are_checked);
    tcase_add_test(t, indirect_copies_need_a_context);
    tcase_add_loop_test(t, words_are_set, 0, 2);
    tcase_add_loop_test(t, words_are_checked, 0, 2);
    tcase_add_test(t, words_need_a_context_and_its_stream);
    tcase_add_test(t, words_wait_for_their_turn);
    tcase_add_test(t, small_sources_share_buffers);
    tcase_add_test(t, what_is_no_symbol_is_refused);
    tcase_add_test(t, a_symbol_is_copied_in_order);
    tcase_add_test(t, a_symbol_has_its_bounds);
    tcase_add_test(t, symbols_need_a_context);
    tcase_add_loop_test(t, memory_that_goes_before_its_task_is_an_error, 0, 5);
}

int main(void)
{
    Suite *s = suite_create("copies");

    add_rows(s);
    add_batches(s);
    add_others(s);
    return run_suite(s);
}
