/*
 * Rare tasks of streams: the status of arithmetic overflow, hints to caches, random numbers.
 *
 * Skipped under TSan: the test asks one call after the other; what the threads share is that of
 * copies and fills, which test_memory and the soak have.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "device_bytes.h"
#include "tests/common/harness.h"
#include "proto/util/float16.h"

#define GUARD_MS 300000 /* against hanging only */
#define BAD      ACL_ERROR_INVALID_PARAM
#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define NO       ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define KIB      ((size_t)1 << 10)
#define ROOM     (256 * KIB)

static aclrtStream stream, other;
static unsigned char *memory;                                /* ROOM bytes of device memory */
static unsigned char seen[ROOM] __attribute__((aligned(8))); /* the same, by synchronize() */

static void open_memory(void)
{
    streams_open(&stream, &other);
    OK(aclrtMallocAlign32((void **)&memory, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void set_up_test(void)
{
    npud_setup();
    open_memory();
}

static bool all_are(const unsigned char *at, size_t size, unsigned char value)
{
    const unsigned char *p = device_bytes(at, size);

    for (size_t i = 0; i < size; i++)
        if (p[i] != value)
            return false;
    return true;
}

static void synchronize(void)
{
    OK(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
    device_get(seen, memory, ROOM);
}

/* --- what all of them refuse --- */

static aclError get_overflow(void *p, size_t size, aclrtStream s)
{
    return aclrtGetOverflowStatus(p, size, s);
}

static aclError get_float_overflow(void *p, size_t size, aclrtStream s)
{
    return aclrtGetFloatOverflowStatus(p, size, s);
}

static aclError get_npu_overflow(void *p, size_t size, aclrtStream s)
{
    return aclrtNpuGetFloatOverFlowStatus(p, size, 0, s);
}

static aclError hint(void *p, size_t size, aclrtStream s)
{
    return aclrtCmoAsync(p, size, ACL_RT_CMO_TYPE_PREFETCH, s);
}

static aclError hint_with_barrier(void *p, size_t size, aclrtStream s)
{
    return aclrtCmoAsyncWithBarrier(p, size, ACL_RT_CMO_TYPE_INVALID, 7, s);
}

static aclError hint_with_desc(void *p, size_t size, aclrtStream s)
{
    (void)size;
    return aclrtCmoAsyncWithDesc(p, ACL_RT_CMO_TYPE_FLUSH, s, NULL);
}

static aclError reset_overflow(void *p, size_t size, aclrtStream s)
{
    (void)p, (void)size;
    return aclrtResetOverflowStatus(s);
}

static aclError reset_float_overflow(void *p, size_t size, aclrtStream s)
{
    (void)p, (void)size;
    return aclrtResetFloatOverflowStatus(s);
}

static aclError clear_npu_overflow(void *p, size_t size, aclrtStream s)
{
    (void)p, (void)size;
    return aclrtNpuClearFloatOverFlowStatus(0, s);
}

static aclError wait_barrier(void *p, size_t size, aclrtStream s)
{
    (void)size;
    return aclrtCmoWaitBarrier(p, s, 0);
}

static void set_parameter(aclrtRandomParaInfo *p, const void *value, size_t size)
{
    *p = (aclrtRandomParaInfo){.size = (uint8_t)size};
    memcpy(p->valueOrAddr, value, size);
}

/* `count` numbers below 2^32 - 1 at p. */
static aclrtRandomNumTaskInfo words_task(void *p, uint64_t count)
{
    aclrtRandomNumTaskInfo info = {.dataType = ACL_UINT32, .randomResultAddr = p};
    uint32_t min = 0, max = UINT32_MAX;
    uint64_t seed = 0;

    info.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min, &min, 4);
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max, &max, 4);
    set_parameter(&info.randomSeed, &seed, 8);
    set_parameter(&info.randomNum, &count, 8);
    return info;
}

static aclError random_words(void *p, size_t size, aclrtStream s)
{
    aclrtRandomNumTaskInfo info = words_task(p, size / 4);

    return aclrtRandomNumAsync(&info, s, NULL);
}

static const struct task_call {
    aclError (*call)(void *p, size_t size, aclrtStream s);
    bool address, range, taskless;
} calls[] = {
    {get_overflow, true, true, false},        {get_float_overflow, true, true, false},
    {get_npu_overflow, true, true, false},    {hint, true, true, true},
    {hint_with_barrier, true, true, true},    {hint_with_desc, true, false, true},
    {reset_overflow, false, false, true},     {reset_float_overflow, false, false, true},
    {clear_npu_overflow, false, false, true}, {wait_barrier, false, false, true},
    {random_words, true, true, false},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

START_TEST(addresses)
{
    const struct task_call *c = &calls[_i];
    unsigned char local[64], *pinned, *end = memory + ROOM, *freed;

    OK(c->call(memory, 64, stream));
    OK(c->call(memory, 64, NULL));
    OK(c->call(end - 64, 64, stream));
    if (c->address) {
        OK(aclrtMallocHost((void **)&pinned, 64));
        OK(aclrtMalloc((void **)&freed, 64, 0));
        OK(aclrtFree(freed));
        FAILS(BAD, c->call(NULL, 64, stream));
        FAILS_SAYING(PARAM, "is not device memory", c->call(local, 64, stream));
        FAILS_SAYING(PARAM, "is not device memory", c->call(pinned, 64, stream));
        FAILS_SAYING(PARAM, "was freed", c->call(freed, 64, stream));
        FAILS_SAYING(PARAM, "leave the allocation", c->call(end - 8, 64, stream));
    }
    if (c->range)
        ck_assert_int_ne(c->call(memory, 0, stream), 0);
    synchronize();
}
END_TEST

START_TEST(streams)
{
    const struct task_call *c = &calls[_i];
    aclrtContext context;
    aclrtStream gone;

    OK(aclrtCreateStream(&gone));
    OK(aclrtDestroyStream(gone));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, c->call(memory, 64, gone));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, c->call(memory, 64, memory));
    OK(aclrtCreateContext(&context, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, c->call(memory, 64, stream));
    OK(c->call(memory, 64, NULL));
    OK(aclrtDestroyContext(context));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, c->call(memory, 64, stream));
}
END_TEST

/* What needs no task is complete also while the stream is held, and has an id all the same. */
START_TEST(tasks_wait_and_hints_do_not)
{
    const struct task_call *c = &calls[_i];
    aclrtEvent gate = stream_hold(stream);
    uint32_t before, after;

    OK(aclrtMemset(memory, 64, 0xa5, 64));
    OK(aclrtGetThreadLastTaskId(&before));
    OK(c->call(memory, 64, stream));
    OK(aclrtGetThreadLastTaskId(&after));
    ck_assert_uint_eq(after, before + 1);
    ck_assert(all_are(memory, 64, 0xa5));
    stream_let_go(gate);
    synchronize();
    ck_assert_int_eq(all_are(memory, 64, 0xa5), c->taskless);
}
END_TEST

/* --- overflow --- */

START_TEST(no_overflow_is_ever_set)
{
    float *numbers = (float *)memory;

    device_put(numbers, (float[]){3e38f, 3e38f}, 8);
    OK(aclrtReduceAsync(numbers, numbers + 1, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT,
                        stream, NULL));
    OK(aclrtMemset(memory + 64, 128, 0xff, 128));
    OK(calls[_i].call(memory + 64, 64, stream));
    synchronize();
    ck_assert(isinf(*(float *)seen));
    ck_assert(all_are(memory + 64, 64, 0));
    ck_assert(all_are(memory + 128, 64, 0xff));
    FAILS_SAYING(PARAM, "must be 64", calls[_i].call(memory, 63, stream));
    FAILS_SAYING(PARAM, "must be 64", calls[_i].call(memory, 128, stream));
}
END_TEST

START_TEST(modes_of_a_check_do_not_matter)
{
    for (uint32_t mode = 0; mode < 3; mode++) {
        OK(aclrtMemset(memory, 64, 1, 64));
        OK(aclrtNpuClearFloatOverFlowStatus(mode, stream));
        OK(aclrtNpuGetFloatOverFlowStatus(memory, 64, mode, stream));
        synchronize();
        ck_assert(all_are(memory, 64, 0));
    }
}
END_TEST

static void *ask_without_context(void *arg)
{
    void *p;

    (void)arg;
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxGetFloatOverflowAddr(&p));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetHardwareSyncAddr(&p));
    return NULL;
}

static aclError (*const areas[])(void **) = {aclrtCtxGetFloatOverflowAddr,
                                             aclrtGetHardwareSyncAddr};

/* _i: an area that the library gives by its address. */
START_TEST(areas_are_device_memory)
{
    void *others;
    aclrtPtrAttributes attributes;
    unsigned char *flags, *same, *elsewhere;
    aclrtContext context;

    FAILS(PARAM, areas[_i](NULL));
    thread_call(ask_without_context, NULL);
    OK(areas[_i]((void **)&flags));
    OK(areas[1 - _i](&others));
    ck_assert_ptr_ne(flags, others);
    OK(aclrtPointerGetAttributes(flags, &attributes));
    ck_assert_int_eq(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    ck_assert(all_are(flags, 64, 0));
    OK(aclrtMemcpyAsync(memory, 64, flags, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    synchronize();
    OK(aclrtCreateContext(&context, 0));
    OK(areas[_i]((void **)&same));
    ck_assert_ptr_eq(same, flags);
    OK(aclrtDestroyContext(context));
    OK(aclrtSetDevice(1));
    OK(areas[_i]((void **)&elsewhere));
    ck_assert_ptr_ne(elsewhere, flags);
    OK(aclrtPointerGetAttributes(elsewhere, &attributes));
    ck_assert_uint_eq(attributes.location.id, 1);
    OK(aclrtFree(elsewhere));
    OK(areas[_i]((void **)&elsewhere));
    ck_assert(all_are(elsewhere, 64, 0));
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(1));
    OK(areas[_i]((void **)&elsewhere));
    ck_assert(all_are(elsewhere, 64, 0));
    OK(aclrtResetDevice(1));
    OK(aclrtResetDeviceForce(0));
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

/* --- hints --- */

START_TEST(hints_check_their_arguments)
{
    unsigned char local[64];
    size_t size = 0;

    for (int type = -1; type <= 4; type++) {
        bool good = type >= ACL_RT_CMO_TYPE_PREFETCH && type <= ACL_RT_CMO_TYPE_FLUSH;
        aclrtCmoType t = (aclrtCmoType)type;

        ck_assert_int_eq(aclrtCmoAsync(memory, 64, t, stream), good ? 0 : BAD);
        ck_assert_int_eq(aclrtCmoAsyncWithBarrier(memory, 64, t, 0, stream), good ? 0 : BAD);
        ck_assert_int_eq(aclrtCmoAsyncWithDesc(memory, t, stream, NULL), good ? 0 : BAD);
    }
    FAILS(BAD, aclrtCmoAsync(memory, 0, ACL_RT_CMO_TYPE_PREFETCH, stream));
    FAILS(BAD, aclrtCmoAsyncWithBarrier(memory, 0, ACL_RT_CMO_TYPE_INVALID, 0, stream));
    FAILS(BAD, aclrtCmoWaitBarrier(NULL, stream, 0));
    FAILS(BAD, aclrtCmoWaitBarrier((aclrtBarrierTaskInfo *)local, stream, 1));
    FAILS(BAD, aclrtCmoAsyncWithDesc(memory, ACL_RT_CMO_TYPE_FLUSH, stream, local));
    FAILS(BAD, aclrtCmoGetDescSize(NULL));
    OK(aclrtCmoGetDescSize(&size));
    ck_assert_uint_gt(size, 0);
    ck_assert_uint_le(size, 64);
    FAILS(BAD, aclrtCmoSetDesc(NULL, memory, 64));
    FAILS(BAD, aclrtCmoSetDesc(memory, NULL, 64));
    FAILS(BAD, aclrtCmoSetDesc(memory, memory + 64, 0));
    FAILS(PARAM, aclrtCmoSetDesc(local, memory, 64));
    FAILS(PARAM, aclrtCmoSetDesc(memory, local, 64));
    FAILS(PARAM, aclrtCmoSetDesc(memory + ROOM - size + 1, memory, 64));
    FAILS(PARAM, aclrtCmoSetDesc(memory, memory + ROOM - 64, 65));
}
END_TEST

START_TEST(a_descriptor_stays_within_its_size)
{
    size_t size = 0;

    OK(aclrtCmoGetDescSize(&size));
    OK(aclrtMemset(memory, 128, 0xa5, 128));
    OK(aclrtCmoSetDesc(memory + ROOM - size, memory, ROOM - size));
    OK(aclrtCmoSetDesc(memory + 32, memory + 1024, 64));
    ck_assert(all_are(memory, 32, 0xa5));
    ck_assert(!all_are(memory + 32, size, 0xa5));
    ck_assert(all_are(memory + 32 + size, 32, 0xa5));
    OK(aclrtCmoAsyncWithDesc(memory + 32, ACL_RT_CMO_TYPE_PREFETCH, stream, NULL));
    synchronize();
}
END_TEST

/* --- random numbers --- */

static double number_at(aclDataType type, size_t i)
{
    switch (type) {
    case ACL_INT32:
        return ((int32_t *)seen)[i];
    case ACL_UINT32:
        return ((uint32_t *)seen)[i];
    case ACL_INT64:
        return (double)((int64_t *)seen)[i];
    case ACL_UINT64:
        return (double)((uint64_t *)seen)[i];
    case ACL_FLOAT:
        return (double)((float *)seen)[i];
    case ACL_FLOAT16:
        return (double)half_to_float(((uint16_t *)seen)[i]);
    default:
        return (double)bf16_to_float(((uint16_t *)seen)[i]);
    }
}

static size_t size_of(aclDataType type)
{
    return aclDataTypeSize(type);
}

static void set_number(aclrtRandomParaInfo *p, aclDataType type, double value)
{
    uint64_t bytes = 0;
    float single = (float)value;

    if (type == ACL_FLOAT)
        memcpy(&bytes, &single, 4);
    else if (type == ACL_FLOAT16)
        bytes = half_from_float(single);
    else if (type == ACL_BF16)
        bytes = bf16_from_float(single);
    else
        bytes = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    set_parameter(p, &bytes, size_of(type));
}

/* A task whose function has the parameters a and b. */
static aclrtRandomNumTaskInfo numbers_task(aclrtRandomNumFuncType function, aclDataType type,
                                           double a, double b, uint64_t count)
{
    aclrtRandomNumTaskInfo info = words_task(memory, count);

    info.dataType = type;
    info.randomNumFuncParaInfo.funcType = function;
    set_number(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min, type, a);
    set_number(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max, type, b);
    return info;
}

static void draw(const aclrtRandomNumTaskInfo *info)
{
    OK(aclrtRandomNumAsync(info, stream, NULL));
    synchronize();
}

#define UNIFORM   ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS
#define NORMAL    ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS
#define TRUNCATED ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS
#define DROPOUT   ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK

/*
 * Blocks of Philox 4x32-10 as its authors have published them. A word w comes out as w - 1, because
 * the maximum is not drawn.
 */
static const struct {
    uint32_t counter[4];
    uint64_t seed;
    uint32_t words[4];
} known[] = {
    {{0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
     UINT64_MAX,
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_blocks)
{
    aclrtRandomNumTaskInfo info = words_task(memory, 4);
    uint32_t *words = (uint32_t *)seen, *counter = (uint32_t *)(seen + 64);

    info.randomCounterAddr = memory + 64;
    device_put(memory + 64, known[_i].counter, 16);
    set_parameter(&info.randomSeed, &known[_i].seed, 8);
    draw(&info);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(words[i], known[_i].words[i] - 1);
    /* One block was used: 128 bits go on from their end to 0. */
    ck_assert_uint_eq(counter[0], known[_i].counter[0] + 1);
    for (int i = 1; i < 4; i++)
        ck_assert_uint_eq(counter[i],
                          known[_i].counter[i] == UINT32_MAX ? 0 : known[_i].counter[i]);
}
END_TEST

/* Without a counter each call begins anew; with one, calls in a row draw what one call draws. */
START_TEST(a_counter_goes_on)
{
    aclrtRandomNumTaskInfo whole = words_task(memory, 48), part = words_task(memory + 1024, 16);

    OK(aclrtRandomNumAsync(&whole, stream, NULL));
    OK(aclrtMemset(memory + 4096, 16, 0, 16));
    part.randomCounterAddr = memory + 4096;
    for (int i = 0; i < 3; i++) {
        part.randomResultAddr = memory + 1024 + i * 64;
        OK(aclrtRandomNumAsync(&part, stream, NULL));
    }
    synchronize();
    ck_assert_mem_eq(seen, seen + 1024, 192);
    part.randomCounterAddr = NULL;
    part.randomResultAddr = memory + 2048;
    draw(&part);
    ck_assert_mem_eq(seen, seen + 2048, 64);
    ck_assert_mem_ne(seen, seen + 64, 64);
}
END_TEST

static const struct {
    aclDataType type;
    double min, max;
} ranges[] = {
    {ACL_INT32, -7, 6},
    {ACL_INT32, INT32_MIN, INT32_MAX},
    {ACL_INT32, -2, -1},
    {ACL_UINT32, 10, 20},
    {ACL_UINT32, 0, UINT32_MAX},
    {ACL_INT64, -1e15, 1e15},
    {ACL_UINT64, 0, 0x1p63},
    {ACL_UINT64, 0x1p62, 0x1.8p63},
    {ACL_FLOAT, -1, 1},
    {ACL_FLOAT, -3e38, 3e38},
    {ACL_FLOAT16, 0, 1},
    {ACL_FLOAT16, -60000, 60000},
    {ACL_BF16, 5, 6},
    {ACL_BF16, -0x1p99, 0},
};

/* All within, and the mean and the spread are those of a uniform distribution. */
START_TEST(uniform_numbers)
{
    enum { N = 20000 };
    aclDataType type = ranges[_i].type;
    double min = ranges[_i].min, max = ranges[_i].max, sum = 0, squares = 0, share;
    aclrtRandomNumTaskInfo info = numbers_task(UNIFORM, type, min, max, N);
    bool discrete = type != ACL_FLOAT && type != ACL_FLOAT16 && type != ACL_BF16;
    double step = discrete ? 1 / (max - min) : 0;

    OK(aclrtMemset(memory, ROOM, 0xa5, ROOM));
    draw(&info);
    ck_assert(all_are(memory + N * size_of(type), 64, 0xa5));
    for (size_t i = 0; i < N; i++) {
        ck_assert_double_ge(number_at(type, i), min);
        if (discrete)
            ck_assert_double_lt(number_at(type, i), max);
        ck_assert_double_le(number_at(type, i), max);
        share = (number_at(type, i) - min) / (max - min);
        sum += share;
        squares += share * share;
    }
    ck_assert_double_eq_tol(sum / N, (1 - step) / 2, 0.01);
    ck_assert_double_eq_tol(squares / N, (1 - step) * (2 - step) / 6, 0.01);
}
END_TEST

static const aclDataType reals[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

/* How many of n numbers are within `z` deviations of the mean. */
static double share_within(aclDataType type, size_t n, double mean, double deviation, double z)
{
    size_t within = 0;

    for (size_t i = 0; i < n; i++)
        within += fabs(number_at(type, i) - mean) <= z * deviation;
    return (double)within / (double)n;
}

START_TEST(normal_numbers)
{
    enum { N = 20000 };
    aclDataType type = reals[_i];
    aclrtRandomNumTaskInfo info = numbers_task(NORMAL, type, 10, 4, N);
    double sum = 0;

    draw(&info);
    for (size_t i = 0; i < N; i++)
        sum += number_at(type, i);
    ck_assert_double_eq_tol(sum / N, 10, 0.15);
    ck_assert_double_eq_tol(share_within(type, N, 10, 4, 1), 0.6827, 0.015);
    ck_assert_double_eq_tol(share_within(type, N, 10, 4, 2), 0.9545, 0.01);
    ck_assert_double_lt(share_within(type, N, 10, 4, 3), 1);
    info.randomNumFuncParaInfo.funcType = TRUNCATED;
    draw(&info);
    ck_assert_double_eq(share_within(type, N, 10, 4, 2.005), 1); /* as bf16 rounds */
    ck_assert_double_eq_tol(share_within(type, N, 10, 4, 1), 0.6827 / 0.9545, 0.015);
    info = numbers_task(NORMAL, type, -3, 0, 5);
    draw(&info);
    ck_assert_double_eq(share_within(type, 5, -3, 0, 0), 1);
}
END_TEST

static size_t count_bits(size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += (size_t)__builtin_popcount(seen[i]);
    return n;
}

START_TEST(dropout_masks)
{
    static const double ratios[] = {0, 0.25, 0.5, 1};
    enum { N = 40001 };
    aclDataType type = reals[_i];
    double kept;

    for (unsigned i = 0; i < 4; i++) {
        aclrtRandomNumTaskInfo info = numbers_task(DROPOUT, type, ratios[i], 0, N);

        OK(aclrtMemset(memory, ROOM, 0xff, ROOM));
        draw(&info);
        kept = (double)count_bits(N / 8 + 1) / N;
        ck_assert_double_eq_tol(kept, 1 - ratios[i], 0.01);
        if (ratios[i] == 0 || ratios[i] == 1)
            ck_assert_double_eq(kept, 1 - ratios[i]);
        ck_assert_uint_le(seen[N / 8], 1); /* a bit, and the rest of the byte is 0 */
        ck_assert_uint_eq(seen[N / 8 + 1], 0xff);
    }
}
END_TEST

/* --- where the parameters are --- */

static void move_to_device(aclrtRandomParaInfo *p, unsigned char *at)
{
    device_put(at, p->valueOrAddr, 8);
    memcpy(p->valueOrAddr, &at, 8);
    p->isAddr = 1;
}

static void *open_when_asleep(void *gate)
{
    OK(aclrtSetDevice(0));
    EVENTUALLY(npud_lists_sleeper(getpid(), "aclrtRandomNumAsync"), "the call does not wait");
    OK(aclrtRecordEvent(gate, other));
    return NULL;
}

/* The stream writes the parameters before it draws the numbers. */
START_TEST(parameters_are_read_in_stream_order)
{
    aclrtRandomNumTaskInfo info = words_task(memory, 256), same = words_task(memory + 8192, 256);
    aclrtRandomParaInfo *p[] = {
        &info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min,
        &info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max,
        &info.randomSeed,
        &info.randomNum,
    };
    unsigned char *device = memory + 4096, *pinned;
    aclrtEvent gate;
    pthread_t thread;

    draw(&same);
    OK(aclrtMallocHost((void **)&pinned, 32));
    for (int i = 0; i < 4; i++) {
        move_to_device(p[i], device + 8 * i);
        device_get(pinned + 8 * i, device + 8 * i, 8);
    }
    OK(aclrtMemset(device, 32, 0, 32)); /* no distribution, and no numbers */
    gate = stream_hold(stream);
    OK(aclrtMemcpyAsync(device, 32, pinned, 32, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    ck_assert_int_eq(pthread_create(&thread, NULL, open_when_asleep, gate), 0);
    OK(aclrtRandomNumAsync(&info, stream, NULL));
    pthread_join(thread, NULL);
    synchronize();
    ck_assert_mem_eq(seen, seen + 8192, 1024);
}
END_TEST

START_TEST(bad_device_parameters)
{
    aclrtRandomNumTaskInfo info;
    unsigned char local[16] = {0};

    for (int i = 0; i < 4; i++) {
        aclrtRandomParaInfo *p[] = {
            &info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min,
            &info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max,
            &info.randomSeed,
            &info.randomNum,
        };

        info = words_task(memory, 4);
        move_to_device(p[i], local);
        FAILS(PARAM, aclrtRandomNumAsync(&info, stream, NULL));
        info = words_task(memory, 4);
        memset(p[i]->valueOrAddr, 0, 8);
        p[i]->isAddr = 1;
        FAILS(PARAM, aclrtRandomNumAsync(&info, stream, NULL));
        p[i]->isAddr = 2;
        FAILS_SAYING(PARAM, "isAddr", aclrtRandomNumAsync(&info, stream, NULL));
    }
    info = words_task(memory, 4);
    info.randomCounterAddr = local;
    FAILS(PARAM, aclrtRandomNumAsync(&info, stream, NULL));
    info.randomCounterAddr = memory + ROOM - 15;
    FAILS(PARAM, aclrtRandomNumAsync(&info, stream, NULL));
}
END_TEST

static const struct {
    aclrtRandomNumFuncType function;
    aclDataType type;
    double a, b;
    aclError error;
} laws[] = {
    {UNIFORM, ACL_DOUBLE, 0, 1, BAD},
    {UNIFORM, ACL_INT8, 0, 1, BAD},
    {UNIFORM, ACL_DT_UNDEFINED, 0, 1, BAD},
    {(aclrtRandomNumFuncType)4, ACL_FLOAT, 0, 1, PARAM},
    {(aclrtRandomNumFuncType)-1, ACL_FLOAT, 0, 1, PARAM},
    {NORMAL, ACL_INT32, 0, 1, NO},
    {TRUNCATED, ACL_UINT64, 0, 1, NO},
    {DROPOUT, ACL_INT64, 0, 1, NO},
    {UNIFORM, ACL_INT32, 3, 3, PARAM},
    {UNIFORM, ACL_INT32, 4, -4, PARAM},
    {UNIFORM, ACL_INT32, -4, 4, 0},
    {UNIFORM, ACL_UINT64, 5, 4, PARAM},
    {UNIFORM, ACL_FLOAT, 1, 1, PARAM},
    {UNIFORM, ACL_FLOAT, 0, INFINITY, PARAM},
    {UNIFORM, ACL_FLOAT16, (double)NAN, 1, PARAM},
    {NORMAL, ACL_BF16, 0, -1, PARAM},
    {NORMAL, ACL_FLOAT, -INFINITY, 1, PARAM},
    {DROPOUT, ACL_FLOAT, -0.1, 0, PARAM},
    {DROPOUT, ACL_FLOAT, 1.1, 0, PARAM},
    {DROPOUT, ACL_FLOAT, (double)NAN, 0, PARAM},
};

START_TEST(what_is_no_distribution)
{
    aclrtRandomNumTaskInfo info =
        numbers_task(laws[_i].function, laws[_i].type, laws[_i].a, laws[_i].b, 4);

    ck_assert_int_eq(aclrtRandomNumAsync(&info, stream, NULL), laws[_i].error);
}
END_TEST

START_TEST(random_errors)
{
    aclrtRandomNumTaskInfo info = words_task(memory, 4);
    uint64_t counts[] = {0, ROOM / 4 + 1, UINT64_MAX, UINT64_MAX / 4 + 1};

    FAILS(BAD, aclrtRandomNumAsync(NULL, stream, NULL));
    FAILS(BAD, aclrtRandomNumAsync(&info, stream, memory));
    for (unsigned i = 0; i < 4; i++) {
        set_parameter(&info.randomNum, &counts[i], 8);
        FAILS(PARAM, aclrtRandomNumAsync(&info, stream, NULL));
    }
    counts[0] = ROOM / 4;
    set_parameter(&info.randomNum, counts, 3); /* its other bytes are 0 */
    draw(&info);
    info.randomNum.size = 0;
    FAILS_SAYING(PARAM, "randomNum", aclrtRandomNumAsync(&info, stream, NULL));
    info.randomNum.size = 9;
    FAILS_SAYING(PARAM, "randomNum", aclrtRandomNumAsync(&info, stream, NULL));
    info = words_task(memory, 4);
    info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max.size = 8;
    FAILS_SAYING(PARAM, "max", aclrtRandomNumAsync(&info, stream, NULL));
    info = words_task(memory, UINT64_MAX / 2);
    info.randomNumFuncParaInfo.funcType = DROPOUT;
    info.dataType = ACL_FLOAT;
    FAILS(PARAM, aclrtRandomNumAsync(&info, stream, NULL));
}
END_TEST

/* The numbers are there already: a restart does not lose or change them. */
START_TEST(a_restart_keeps_the_numbers)
{
    aclrtRandomNumTaskInfo info = words_task(memory, 256), same = words_task(memory + 4096, 256);
    aclrtEvent gate;

    npud_start_restartable(NULL);
    open_memory();
    info.randomResultAddr = memory;
    same.randomResultAddr = memory + 4096;
    draw(&same);
    gate = stream_hold(stream);
    OK(aclrtRandomNumAsync(&info, stream, NULL));
    npud_kill_server();
    OK(aclrtRecordEvent(gate, other));
    synchronize();
    ck_assert_mem_eq(seen, seen + 4096, 1024);
    npud_teardown();
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

int main(void)
{
    Suite *s = suite_create("stream_tasks");
    TCase *all = suite_case(s, "all", 60, set_up_test, npud_teardown);
    TCase *overflow = suite_case(s, "overflow", 60, set_up_test, npud_teardown);
    TCase *hints = suite_case(s, "hints", 60, set_up_test, npud_teardown);
    TCase *numbers = suite_case(s, "random numbers", 60, set_up_test, npud_teardown);
    TCase *restart = suite_case(s, "restart", 60, NULL, NULL);

    tcase_add_loop_test(all, addresses, 0, CALLS);
    tcase_add_loop_test(all, streams, 0, CALLS);
    tcase_add_loop_test(all, tasks_wait_and_hints_do_not, 0, CALLS);
    tcase_add_loop_test(overflow, no_overflow_is_ever_set, 0, 3);
    tcase_add_test(overflow, modes_of_a_check_do_not_matter);
    tcase_add_loop_test(overflow, areas_are_device_memory, 0, 2);
    tcase_add_test(hints, hints_check_their_arguments);
    tcase_add_test(hints, a_descriptor_stays_within_its_size);
    tcase_add_loop_test(numbers, known_blocks, 0, COUNT(known));
    tcase_add_test(numbers, a_counter_goes_on);
    tcase_add_loop_test(numbers, uniform_numbers, 0, COUNT(ranges));
    tcase_add_loop_test(numbers, normal_numbers, 0, COUNT(reals));
    tcase_add_loop_test(numbers, dropout_masks, 0, COUNT(reals));
    tcase_add_test(numbers, parameters_are_read_in_stream_order);
    tcase_add_test(numbers, bad_device_parameters);
    tcase_add_loop_test(numbers, what_is_no_distribution, 0, COUNT(laws));
    tcase_add_test(numbers, random_errors);
    tcase_add_test(restart, a_restart_keeps_the_numbers);
    return run_suite(s);
}
