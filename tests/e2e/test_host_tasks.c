/*
 * Tasks that name memory which the program has registered: all that streams do to memory, for host
 * and device memory in any pairing, in their turn, on devices that are strict and that are not; and
 * what is freed, unmapped or closed before or while the library's thread has it.
 *
 * Skipped under TSan: that a task of the library's thread comes before what the program does after
 * it is told by npud, another process, and TSan sees one.
 * Runs long: 10 s.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "acl/acl_rt_memory_soma.h"
#include "device_bytes.h"
#include "gate.h"
#include "pattern.h"
#include "tests/common/harness.h"
#include "tests/common/stream_end.h"

#define KIB    ((size_t)1 << 10)
#define MIB    ((size_t)1 << 20)
#define UNIT   (2 * MIB) /* of mappings */
#define SIZE   (128 * KIB)
#define PINNED ACL_HOST_REG_PINNED
#define MAPPED ACL_HOST_REG_MAPPED
#define PARAM  ACL_ERROR_RT_PARAM_INVALID
#define DMA    ACL_ERROR_RT_SYS_DMA
#define D2D    ACL_MEMCPY_DEVICE_TO_DEVICE
#define KEY    65

static const char *const strict[] = {"--set=sim.strict=yes", NULL};
static const char *const ordinary[] = {NULL};
static aclrtStream stream, other;

static void set_up_ordinary(void)
{
    npud_start(ordinary);
    streams_open(&stream, &other);
}

static void set_up_strict(void)
{
    npud_start(strict);
    streams_open(&stream, &other);
}

static void await(aclrtStream s)
{
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
}

/* --- memory --- */

static void *pages_of(size_t size, int flags)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static void *device_new(size_t size)
{
    void *p;

    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(p, size, 0, size));
    return p;
}

static void *registered(void *p, size_t size, uint32_t flag)
{
    OK(aclrtHostRegisterV2(p, size, flag));
    return p;
}

static void *pinned_new(size_t size)
{
    return registered(pages_of(size, MAP_PRIVATE), size, PINNED);
}

static void *mapped_new(size_t size)
{
    return registered(pages_of(size, MAP_PRIVATE), size, MAPPED);
}

static void *shared_new(size_t size)
{
    return registered(pages_of(size, MAP_SHARED), size, MAPPED);
}

static void *host_new(size_t size)
{
    void *p;

    OK(aclrtMallocHost(&p, size));
    return registered(p, size, MAPPED);
}

static void *(*const kinds[])(size_t size) = {device_new, pinned_new, mapped_new, shared_new,
                                              host_new};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), PAIRS = KINDS * KINDS };

/* --- what streams do to two places: dst is as if it were done now --- */

static void plain_copy(void *dst, void *src)
{
    OK(aclrtMemcpyAsync(dst, SIZE, src, SIZE, D2D, stream));
}

static void copy_of_rows(void *dst, void *src)
{
    const size_t width = 1000, pitch = 1024;
    char *to = dst, *from = src;

    OK(aclrtMemcpy2dAsync(to, pitch, from, pitch, width, SIZE / pitch, D2D, stream));
    OK(aclrtMemcpy2dAsync(to + width, pitch, from + width, pitch, pitch - width, SIZE / pitch, D2D,
                          stream));
}

/* Between a host and a device: one of the two at least is a device's. */
static void copy_in_a_batch(void *dst, void *src)
{
    void *dsts[] = {dst, (char *)dst + SIZE / 2}, *srcs[] = {src, (char *)src + SIZE / 2};
    size_t sizes[] = {SIZE / 2, SIZE / 2}, index = 0, failed;
    aclrtPtrAttributes to, from;
    aclrtMemcpyBatchAttr attr = {0};

    OK(aclrtPointerGetAttributes(dst, &to));
    OK(aclrtPointerGetAttributes(src, &from));
    if (to.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && from.location.type == to.location.type)
        return plain_copy(dst, src);
    if (from.location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        to.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.dstLoc = to.location;
    attr.srcLoc = from.location;
    OK(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attr, &index, 1, &failed, stream));
}

static void copy_by_descriptor(void *dst, void *src)
{
    size_t size;
    void *desc;

    OK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &size));
    desc = pinned_new(size);
    OK(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, src, dst, SIZE, NULL));
    OK(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
}

static void copy_of_a_taken_source(void *dst, void *src)
{
    void *taken = pages_of(SIZE, MAP_PRIVATE);

    await(stream); /* the source is taken now */
    device_get(taken, src, SIZE);
    OK(aclrtMemcpyAsync(dst, SIZE, taken, SIZE, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    memset(taken, 0, SIZE);
}

/* dst was all zero: a sum is a copy. */
static void sum_onto_zeros(void *dst, void *src)
{
    OK(aclrtMemsetAsync(dst, SIZE, 0, SIZE, stream));
    OK(aclrtReduceAsync(dst, src, SIZE, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream, NULL));
}

static void (*const copies[])(void *dst, void *src) = {
    plain_copy,         copy_of_rows,           copy_in_a_batch,
    copy_by_descriptor, copy_of_a_taken_source, sum_onto_zeros,
};
enum { COPIES = sizeof(copies) / sizeof(copies[0]) };

/* Where the stream is held, the source gets its bytes meanwhile: what copies, copies late. */
static void try_copy(int copy, void *dst, void *src, unsigned seed, bool held)
{
    unsigned char *bytes = pages_of(SIZE, MAP_PRIVATE);
    aclrtEvent gate = held ? stream_hold(stream) : NULL;

    fill_pattern(bytes, SIZE, seed);
    if (!held)
        device_put(src, bytes, SIZE);
    copies[copy](dst, src);
    if (held) {
        ck_assert(!idle(stream));
        device_put(src, bytes, SIZE);
        stream_let_go(gate);
    }
    await(stream);
    ck_assert_msg(holds_pattern(device_bytes(dst, SIZE), SIZE, seed), "copy %d, held %d", copy,
                  held);
    munmap(bytes, SIZE);
}

START_TEST(each_copy_in_each_pairing)
{
    void *dst = kinds[_i / KINDS](SIZE), *src = kinds[_i % KINDS](SIZE);

    for (int copy = 0; copy < COPIES; copy++) {
        try_copy(copy, dst, src, 2u * (unsigned)copy, false);
        if (copies[copy] != copy_of_a_taken_source)
            try_copy(copy, dst, src, 2u * (unsigned)copy + 1, true);
    }
}
END_TEST

/* The pointers to what is copied stand in registered memory, and a task writes them. */
START_TEST(addresses_that_tasks_write)
{
    char *dst = kinds[_i / KINDS](SIZE), *src = kinds[_i % KINDS](SIZE);
    void **slots = pinned_new(2 * sizeof(void *));
    unsigned char *bytes = pages_of(SIZE, MAP_PRIVATE);

    fill_pattern(bytes, SIZE, 5);
    device_put(src, bytes, SIZE);
    OK(aclrtValueWrite(&slots[0], (uintptr_t)dst, 0, stream));
    OK(aclrtValueWrite(&slots[1], (uintptr_t)src, 0, stream));
    OK(aclrtMemcpyAsyncWithOffset(&slots[0], SIZE, 16, (const void **)&slots[1], SIZE - 32, 8,
                                  ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    await(stream);
    ck_assert_int_eq(memcmp(device_bytes(dst + 16, SIZE - 32), bytes + 8, SIZE - 32), 0);
}
END_TEST

/* Elements are reduced as an engine reduces them. */
START_TEST(reductions_are_those_of_an_engine)
{
    const size_t size = MIB + 24;
    float *dst = kinds[_i / KINDS](size), *src = kinds[_i % KINDS](size);
    float *a = pages_of(size, MAP_PRIVATE), *b = pages_of(size, MAP_PRIVATE);

    for (size_t i = 0; i < size / sizeof(float); i++) {
        a[i] = (float)(i % 1000) * 0.37f;
        b[i] = (float)(i % 777) * 0.61f;
    }
    device_put(dst, a, size);
    device_put(src, b, size);
    OK(aclrtReduceAsync(dst, src, size, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream, NULL));
    OK(aclrtReduceAsync(dst, src, size, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_FLOAT, stream, NULL));
    await(stream);
    dst = device_bytes(dst, size);
    for (size_t i = 0; i < size / sizeof(float); i++) {
        float sum = a[i] + b[i], most = sum > b[i] ? sum : b[i];

        if (dst[i] != most)
            ck_abort_msg("element %zu is %f, not %f", i, (double)dst[i], (double)most);
    }
}
END_TEST

/* --- what streams do to one place --- */

static void expect_words(const void *at, uint32_t word)
{
    const uint32_t *words = device_bytes(at, SIZE);

    for (size_t i = 0; i < SIZE / sizeof(word); i++)
        if (words[i] != word)
            ck_abort_msg("word %zu is %#x, not %#x", i, words[i], word);
}

START_TEST(fills)
{
    void *p = kinds[_i](SIZE);
    aclrtEvent gate;

    OK(aclrtMemset(p, SIZE, 0x11, SIZE));
    expect_words(p, 0x11111111);
    OK(aclrtMemsetD32(p, SIZE, 0x01020304, SIZE / 4));
    expect_words(p, 0x01020304);
    OK(aclrtMemsetAsync(p, SIZE, 0x22, SIZE, stream));
    await(stream);
    expect_words(p, 0x22222222);
    OK(aclrtMemsetD32Async(p, SIZE, 0x05060708, SIZE / 4, stream));
    await(stream);
    expect_words(p, 0x05060708);
    gate = stream_hold(stream);
    OK(aclrtMemsetAsync(p, SIZE, 0x33, SIZE, stream));
    ck_assert(!idle(stream));
    expect_words(p, 0x05060708);
    OK(aclrtMemsetD32Async(p, SIZE / 2, 0x09090a0a, SIZE / 8, stream));
    stream_let_go(gate);
    await(stream);
    ck_assert_uint_eq(device_word(p), 0x09090a0a09090a0a);
    ck_assert_uint_eq(device_word((char *)p + SIZE / 2), 0x3333333333333333);
}
END_TEST

static void set_parameter(aclrtRandomParaInfo *p, const void *value, uint8_t size)
{
    memcpy(p->valueOrAddr, value, size);
    p->size = size;
}

/* Random numbers are the same wherever they go; their counter, too. */
START_TEST(random_numbers)
{
    aclrtRandomNumTaskInfo info = {.dataType = ACL_UINT32};
    uint32_t min = 0, max = UINT32_MAX;
    uint64_t seed = 7, count = SIZE / 4;
    void *at[2] = {device_new(SIZE), kinds[_i](SIZE)};
    void *counter[2] = {device_new(16), kinds[_i](16)};

    info.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min, &min, 4);
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max, &max, 4);
    set_parameter(&info.randomSeed, &seed, 8);
    set_parameter(&info.randomNum, &count, 8);
    OK(aclrtMemset(counter[1], 16, 0, 16));
    for (int i = 0; i < 4; i++) {
        info.randomResultAddr = at[i % 2];
        info.randomCounterAddr = counter[i % 2];
        OK(aclrtRandomNumAsync(&info, stream, NULL));
    }
    await(stream);
    ck_assert_int_eq(memcmp(device_bytes(at[0], SIZE), device_bytes(at[1], SIZE), SIZE), 0);
    ck_assert_int_eq(memcmp(device_bytes(counter[0], 16), device_bytes(counter[1], 16), 16), 0);
    ck_assert_uint_ne(device_word(counter[1]), 0);
}
END_TEST

START_TEST(status_of_overflow)
{
    void *p = kinds[_i](64);

    OK(aclrtMemset(p, 64, 1, 64));
    OK(aclrtGetFloatOverflowStatus(p, 64, stream));
    await(stream);
    ck_assert_uint_eq(device_word(p), 0);
}
END_TEST

/* --- words that streams write, and wait for --- */

static void write_word(void *word, uint64_t value)
{
    OK(aclrtMemcpy(word, 8, &value, 8, ACL_MEMCPY_DEFAULT));
}

START_TEST(values_are_written_in_order)
{
    uint64_t *word = kinds[_i](64);
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtValueWrite(word, 5, 0, stream));
    OK(aclrtValueWrite(word + 1, 6, 0, stream));
    OK(aclrtValueWrite(word, 7, 0, stream));
    ck_assert(!idle(stream));
    ck_assert_uint_eq(device_word(word), 0);
    stream_let_go(gate);
    await(stream);
    ck_assert_uint_eq(device_word(word), 7);
    ck_assert_uint_eq(device_word(word + 1), 6);
}
END_TEST

static uint64_t *waited_for;

static void by_copy(void)
{
    write_word(waited_for, 3);
}

static void by_fill(void)
{
    OK(aclrtMemset(waited_for, 8, 3, 1));
}

static void by_value_write(void)
{
    OK(aclrtValueWrite(waited_for, 3, 0, other));
}

static void by_task(void)
{
    uint64_t *three = pinned_new(MIB);

    *three = 3;
    OK(aclrtMemcpyAsync(waited_for, MIB, three, MIB, D2D, other));
}

static void by_store(void)
{
    __atomic_store_n(waited_for, 3, __ATOMIC_RELEASE);
}

static void (*const writers[])(void) = {by_copy, by_fill, by_value_write, by_task, by_store};
enum { WRITERS = sizeof(writers) / sizeof(writers[0]) };

/* Whoever writes it; a store to device memory wakes no stream. */
START_TEST(values_are_waited_for)
{
    waited_for = kinds[_i / WRITERS](MIB);
    if (_i / WRITERS == 0 && writers[_i % WRITERS] == by_store)
        return;
    for (int i = 0; i < 20; i++) {
        write_word(waited_for, 0);
        OK(aclrtValueWait(waited_for, 3, ACL_STREAM_WAIT_VALUE_EQ, stream));
        OK(aclrtValueWrite(waited_for + 1, (uint64_t)i, 0, stream));
        engine_turn(other);
        ck_assert(!idle(stream));
        writers[_i % WRITERS]();
        await(stream);
        ck_assert_uint_eq(device_word(waited_for + 1), (uint64_t)i);
        await(other);
    }
}
END_TEST

START_TEST(conditions)
{
    static const struct {
        uint64_t word, value;
        uint32_t condition;
        bool holds;
    } rows[] = {
        {5, 5, ACL_STREAM_WAIT_VALUE_GEQ, true},
        {4, 5, ACL_STREAM_WAIT_VALUE_GEQ, false},
        {2, UINT64_MAX, 0, true},
        {UINT64_MAX, 2, 0, false},
        {5, 5, ACL_STREAM_WAIT_VALUE_EQ, true},
        {5, 4, ACL_STREAM_WAIT_VALUE_EQ, false},
        {6, 2, ACL_STREAM_WAIT_VALUE_AND, true},
        {4, 2, ACL_STREAM_WAIT_VALUE_AND, false},
        {6, 2, ACL_STREAM_WAIT_VALUE_NOR, true},
        {UINT64_MAX, 2, 3, false},
        {UINT64_MAX - 1, 1, 3, false},
    };
    uint64_t *word = kinds[_i](64);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_word(word, rows[i].word);
        OK(aclrtValueWait(word, rows[i].value, rows[i].condition, stream));
        if (rows[i].holds) {
            await(stream);
            continue;
        }
        engine_turn(other);
        ck_assert_msg(!idle(stream), "row %zu", i);
        OK(aclrtStreamAbort(stream));
    }
}
END_TEST

static double cpu_seconds(void)
{
    struct rusage u;

    ck_assert_int_eq(getrusage(RUSAGE_SELF, &u), 0);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Of other streams, and of this one it keeps what comes behind it; and it takes next to no time. */
START_TEST(a_wait_holds_nobody_else)
{
    uint64_t *word = pinned_new(64);
    char *host = mapped_new(MIB), *device = device_new(MIB);
    double before;

    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    OK(aclrtMemcpyAsync(device, MIB, host, MIB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    engine_turn(other);
    fill_pattern(host, MIB, 1);
    for (int i = 0; i < 20; i++) {
        OK(aclrtMemcpyAsync(device, MIB, host, MIB, ACL_MEMCPY_HOST_TO_DEVICE, other));
        await(other);
    }
    before = cpu_seconds();
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 500));
    ck_assert_double_lt(cpu_seconds() - before, 0.1);
    fill_pattern(host, MIB, 2);
    *(_Atomic uint64_t *)word = 1;
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, MIB), MIB, 2));
}
END_TEST

#define FED_BYTES (32 * MIB)
enum { FED = 8, FED_FULL = FED * 1000 }; /* copies: then their rings are about full */
static _Atomic bool fed;
static _Atomic unsigned launched;

/* There is always a copy that is ready, of one of the streams. */
static void *feed_streams(void *arg)
{
    char *host = arg;
    aclrtStream streams[FED];

    OK(aclrtSetDevice(0));
    for (size_t i = 0; i < FED; i++)
        OK(aclrtCreateStream(&streams[i]));
    while (!atomic_load(&fed))
        for (size_t i = 0; i < FED; i++, launched++)
            OK(aclrtMemcpyAsync(host, FED_BYTES, host + FED_BYTES, FED_BYTES, D2D, streams[i]));
    for (size_t i = 0; i < FED; i++)
        OK(aclrtDestroyStreamForce(streams[i]));
    return NULL;
}

/*
 * Work of other streams, however much there is, does not keep it from its turn: with full rings, as
 * many copies are launched as are made.
 */
START_TEST(nobody_else_holds_a_wait)
{
    uint64_t *word = pinned_new(64);
    unsigned before;
    pthread_t feeder;

    ck_assert_int_eq(pthread_create(&feeder, NULL, feed_streams, mapped_new(2 * FED_BYTES)), 0);
    EVENTUALLY(launched >= FED_FULL, "the rings are not full");
    for (uint64_t i = 1; i <= 5; i++) {
        OK(aclrtValueWait(word, i, ACL_STREAM_WAIT_VALUE_EQ, stream));
        FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 30));
        before = launched;
        *(_Atomic uint64_t *)word = i;
        await(stream);
        ck_assert_uint_lt(launched - before, 8 * FED);
    }
    atomic_store(&fed, true);
    pthread_join(feeder, NULL);
}
END_TEST

/* --- waits that end otherwise --- */

START_TEST(waits_are_discarded)
{
    for (int i = 0; i < 50; i++) {
        uint64_t *word = pinned_new(64);

        OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
        OK(aclrtValueWrite(word + 1, 1, 0, stream));
        if (i % 2)
            engine_turn(other);
        stream_end(_i, &stream);
        OK(aclrtHostUnregister(word));
        ck_assert_uint_eq(word[1], 0);
        munmap(word, 64);
    }
    OK(aclrtDestroyStream(stream));
    OK(aclrtCreateStream(&stream));
}
END_TEST

/* The program may unmap it then. */
START_TEST(unregistering_fails_a_wait)
{
    for (int i = 0; i < 50; i++) {
        uint64_t *word = pinned_new(64);

        OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
        if (i % 2)
            engine_turn(other);
        OK(aclrtHostUnregister(word));
        munmap(word, 64);
        FAILS(DMA, aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    }
}
END_TEST

START_TEST(npud_dies_with_a_wait)
{
    uint64_t *word = pinned_new(64);

    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    engine_turn(other);
    npud_kill();
    ck_assert_int_ne(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS), 0);
    OK(aclFinalize());
    munmap(word, 64);
}
END_TEST

/* --- what goes before its turn, or during it --- */

static const aclrtPhysicalMemProp on_device = {
    .handleType = ACL_MEM_HANDLE_TYPE_NONE,
    .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
};

static aclrtDrvMemHandle physical_new(void)
{
    aclrtDrvMemHandle h;

    OK(aclrtMallocPhysical(&h, UNIT, &on_device, 0));
    return h;
}

static char *reserved_new(size_t size)
{
    void *p;

    OK(aclrtReserveMemAddress(&p, size, 0, NULL, 0));
    return p;
}

/* The second mapping goes, and another takes its place: it must not get a byte of the copy. */
START_TEST(two_mappings)
{
    char *host = pinned_new(2 * UNIT), *p = reserved_new(2 * UNIT), *before = p;
    aclrtDrvMemHandle h[3] = {physical_new(), physical_new(), physical_new()};
    aclrtEvent gate;
    aclError error;

    for (int round = 0; round < 20; round++) {
        bool write = round % 2 == 0;

        OK(aclrtMapMem(p, UNIT, 0, h[0], 0));
        OK(aclrtMapMem(p + UNIT, UNIT, 0, h[1], 0));
        OK(aclrtMemset(p, 2 * UNIT, 1, 2 * UNIT));
        memset(host, 7, 2 * UNIT);
        gate = stream_hold(stream);
        OK(aclrtMemcpyAsync(write ? p : host, 2 * UNIT, write ? host : p, 2 * UNIT, D2D, stream));
        OK(aclrtUnmapMem(p + UNIT));
        OK(aclrtMapMem(p + UNIT, UNIT, 0, h[2], 0));
        OK(aclrtMemset(p + UNIT, UNIT, 9, UNIT));
        stream_let_go(gate);
        error = aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);
        ck_assert_msg(error == 0 || error == DMA, "%d", error);
        ck_assert(all_are(device_bytes(p + UNIT, UNIT), UNIT, 9));
        ck_assert(all_are(write ? device_bytes(before, UNIT) : host, UNIT, write ? 7 : 1));
        if (!write)
            ck_assert(host[UNIT] == 1 || host[UNIT] == 7);
        OK(aclrtUnmapMem(p));
        OK(aclrtUnmapMem(p + UNIT));
    }
}
END_TEST

/* What goes: made, and taken away. */
struct goer {
    void *p;
    aclrtDrvMemHandle handle;
    char key[KEY];
    void *exported;
};

static void make_allocation(struct goer *g)
{
    g->p = device_new(UNIT);
}

static void free_allocation(struct goer *g)
{
    OK(aclrtFree(g->p));
}

static void make_host(struct goer *g)
{
    OK(aclrtMallocHost(&g->p, UNIT));
}

static void free_host(struct goer *g)
{
    OK(aclrtFreeHost(g->p));
}

static void make_managed(struct goer *g)
{
    OK(aclrtMemAllocManaged(&g->p, UNIT, ACL_RT_MEM_ATTACH_GLOBAL));
}

static void make_mapping(struct goer *g)
{
    g->handle = physical_new();
    g->p = reserved_new(UNIT);
    OK(aclrtMapMem(g->p, UNIT, 0, g->handle, 0));
}

static void unmap_mapping(struct goer *g)
{
    OK(aclrtUnmapMem(g->p)); /* the addresses stay reserved: what is there is known */
    OK(aclrtFreePhysical(g->handle));
}

static void make_import(struct goer *g)
{
    g->exported = device_new(UNIT);
    OK(aclrtIpcMemGetExportKey(g->exported, UNIT, g->key, KEY, 1));
    OK(aclrtIpcMemImportByKey(&g->p, g->key, 0));
}

static void close_import(struct goer *g)
{
    OK(aclrtIpcMemClose(g->key));
    OK(aclrtFree(g->exported));
}

static const struct {
    void (*make)(struct goer *g);
    void (*take)(struct goer *g);
} goers[] = {
    {make_allocation, free_allocation}, {make_host, free_host},
    {make_managed, free_allocation},    {make_mapping, unmap_mapping},
    {make_import, close_import},
};
enum { GOERS = sizeof(goers) / sizeof(goers[0]) };

static void expect_made_or_failed(void)
{
    aclError error = aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);

    ck_assert_msg(error == 0 || error == DMA, "%d", error);
}

START_TEST(what_goes_before_its_turn)
{
    char *host = pinned_new(UNIT);
    struct goer g;

    for (int i = 0; i < 10; i++) {
        aclrtEvent gate;

        goers[_i].make(&g);
        gate = stream_hold(stream);
        OK(aclrtMemcpyAsync(g.p, UNIT, host, UNIT, D2D, stream));
        OK(aclrtMemcpyAsync(host, UNIT, g.p, UNIT, D2D, stream));
        goers[_i].take(&g);
        stream_let_go(gate);
        expect_made_or_failed();
    }
    await(stream);
}
END_TEST

/* At any moment of a copy. */
START_TEST(what_goes_during_its_turn)
{
    char *host = pinned_new(UNIT);
    struct goer g;

    for (int i = 0; i < 60; i++) {
        goers[_i].make(&g);
        OK(aclrtMemcpyAsync(g.p, UNIT, host, UNIT, D2D, stream));
        OK(aclrtMemcpyAsync(host, UNIT, g.p, UNIT, D2D, stream));
        for (volatile int k = 0; k < i * 7919 % 200000; k++)
            ;
        goers[_i].take(&g);
        expect_made_or_failed();
    }
    await(stream);
}
END_TEST

/* --- what goes in the order of a stream is there until then --- */

/* The block goes back behind the copies. Kept: it is lent again before they are made. */
START_TEST(freed_behind_its_copies)
{
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    char *host = pinned_new(UNIT), *back = pinned_new(UNIT);
    aclrtMemPool pool;
    aclrtEvent gate;
    void *p, *again;

    memset(host, 7, UNIT);
    OK(aclrtMemPoolCreate(&pool, &props));
    gate = stream_hold(stream);
    OK(aclrtMemPoolMallocAsync(&p, UNIT, pool, stream));
    OK(aclrtMemcpyAsync(p, UNIT, host, UNIT, D2D, stream));
    OK(aclrtMemcpyAsync(back, UNIT, p, UNIT, D2D, stream));
    OK(aclrtMemPoolFreeAsync(p, stream));
    if (_i == 1)
        OK(aclrtMemPoolMallocAsync(&again, UNIT, pool, stream));
    if (_i == 2)
        OK(aclrtMemPoolDestroy(pool));
    stream_let_go(gate);
    await(stream);
    ck_assert(all_are(back, UNIT, 7));
}
END_TEST

/*
 * A reset waits for what its streams have, and the library's own stream ends after them: what they
 * have copies by it. _i & 1: it was used before, or not. _i & 2: by the end of a context. Nothing
 * is left.
 */
START_TEST(copies_before_a_reset)
{
    char *host = pinned_new(MIB), *device, byte = 0;
    aclrtContext context = NULL;
    aclrtStream s;

    memset(host, 1, MIB);
    if (_i & 2) {
        OK(aclrtResetDevice(0));
        OK(aclrtCreateContext(&context, 0));
    }
    OK(aclrtCtxGetCurrentDefaultStream(&s));
    device = device_new(MIB);
    if (_i & 1)
        OK(aclrtMemcpy(device, 1, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemsetAsync(device, MIB, 7, MIB, s));
    OK(aclrtMemcpyAsync(host, MIB, device, MIB, ACL_MEMCPY_DEVICE_TO_HOST, s));
    OK(context ? aclrtDestroyContext(context) : aclrtResetDevice(0));
    ck_assert(all_are(host, MIB, 7));
    ck_assert_uint_eq(npud_ledger().streams, 0);
    ck_assert_uint_eq(npud_ledger().memory, 0);
    OK(aclrtHostUnregister(host));
    OK(aclrtSetDevice(0));
}
END_TEST

/* --- the same beside copies of the calling thread --- */

struct copier {
    void *p;
    char *own;
    _Atomic bool copies;
};

/* Until it has gone. */
static void *copy_until_refused(void *arg)
{
    struct copier *c = arg;
    aclError error = 0;

    OK(aclrtSetDevice(0));
    for (unsigned i = 0; error == 0; i++) {
        error = i % 3 == 0   ? aclrtMemcpy(c->p, UNIT, c->own, UNIT, ACL_MEMCPY_DEFAULT)
                : i % 3 == 1 ? aclrtMemcpy(c->own, UNIT, c->p, UNIT, ACL_MEMCPY_DEFAULT)
                             : aclrtMemset(c->p, UNIT, 1, UNIT);
        atomic_store(&c->copies, true);
    }
    ck_assert_msg(error == PARAM || error == DMA, "%d", error);
    return NULL;
}

START_TEST(what_goes_beside_copies_of_a_call)
{
    struct copier c = {.own = pages_of(UNIT, MAP_PRIVATE)};
    pthread_t thread;
    struct goer g;

    for (int i = 0; i < 30; i++) {
        goers[_i].make(&g);
        c.p = g.p;
        atomic_store(&c.copies, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, copy_until_refused, &c), 0);
        EVENTUALLY(atomic_load(&c.copies), "nothing is copied");
        for (volatile int k = 0; k < i * 7919 % 200000; k++)
            ;
        goers[_i].take(&g);
        pthread_join(thread, NULL);
    }
}
END_TEST

/* --- the suite --- */

static void add_tests(Suite *s, const char *name, void (*set_up)(void))
{
    TCase *t = suite_case(s, name, 120, set_up, npud_teardown);

    suite_add_cases(t, each_copy_in_each_pairing, PAIRS);
    suite_add_cases(t, addresses_that_tasks_write, PAIRS);
    suite_add_cases(t, reductions_are_those_of_an_engine, PAIRS);
    tcase_add_loop_test(t, fills, 0, KINDS);
    tcase_add_loop_test(t, random_numbers, 0, KINDS);
    tcase_add_loop_test(t, status_of_overflow, 0, KINDS);
    tcase_add_loop_test(t, values_are_written_in_order, 0, KINDS);
    suite_add_cases(t, values_are_waited_for, KINDS * WRITERS);
    tcase_add_loop_test(t, conditions, 0, KINDS);
    tcase_add_test(t, a_wait_holds_nobody_else);
    tcase_add_test(t, nobody_else_holds_a_wait);
    tcase_add_loop_test(t, waits_are_discarded, 0, STREAM_ENDS);
    tcase_add_test(t, unregistering_fails_a_wait);
    tcase_add_test(t, npud_dies_with_a_wait);
    tcase_add_test(t, two_mappings);
    tcase_add_loop_test(t, what_goes_before_its_turn, 0, GOERS);
    tcase_add_loop_test(t, what_goes_during_its_turn, 0, GOERS);
    tcase_add_loop_test(t, freed_behind_its_copies, 0, 3);
    tcase_add_loop_test(t, copies_before_a_reset, 0, 4);
    tcase_add_loop_test(t, what_goes_beside_copies_of_a_call, 0, GOERS);
}

int main(void)
{
    Suite *s = suite_create("host tasks");

    add_tests(s, "ordinary", set_up_ordinary);
    add_tests(s, "strict", set_up_strict);
    return run_suite(s);
}
