/* Words of device memory that streams write and wait for, and reductions. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_bytes.h"
#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */
#define GUARD_MS 300000
#define GEQ      ACL_STREAM_WAIT_VALUE_GEQ
#define EQ       ACL_STREAM_WAIT_VALUE_EQ
#define AND      ACL_STREAM_WAIT_VALUE_AND
#define NOR      ACL_STREAM_WAIT_VALUE_NOR

static aclrtStream stream, other;
static uint64_t *word;

static void open_device(void)
{
    streams_open(&stream, &other);
    OK(aclrtMalloc((void **)&word, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(word, 4096, 0, 4096));
}

static void set_up_test(void)
{
    npud_setup();
    open_device();
}

/* --- asking --- */

static size_t blocked_streams(Npud__Report **report)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    size_t n = 0;

    for (size_t i = 0; i < r->n_waits; i++)
        n += r->waits[i]->stream >= 0;
    if (report)
        *report = r;
    else
        npud__report__free_unpacked(r, NULL);
    return n;
}

/* Until npud says that so many streams are parked. */
static void await_blocked(size_t n)
{
    EVENTUALLY(blocked_streams(NULL) == n, "%zu streams do not come to wait", n);
}

static void expect_status(aclrtStream s, aclrtStreamStatus expected)
{
    aclrtStreamStatus status;

    OK(aclrtStreamQuery(s, &status));
    ck_assert_int_eq(status, expected);
}

static void host_write(uint64_t value)
{
    OK(aclrtMemcpy(word, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void *make_device_memory(size_t size)
{
    void *p;

    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static void *make_host_memory(size_t size)
{
    void *p;

    OK(aclrtMallocHost(&p, size));
    return p;
}

/* --- conditions --- */

static const struct {
    uint32_t flag;
    uint64_t word, value;
    bool holds;
    uint64_t then; /* a word that does */
} conditions[] = {
    {GEQ, 5, 5, true, 0},
    {GEQ, 6, 5, true, 0},
    {GEQ, 4, 5, false, 5},
    {GEQ, 0, UINT64_MAX, true, 0},  /* one after -1 */
    {GEQ, UINT64_MAX, 0, false, 0}, /* one before 0 */
    {GEQ, UINT64_MAX, 1, false, 1},
    {GEQ, INT64_MAX, 0, true, 0},
    {GEQ, UINT64_C(1) << 63, 0, false, 1}, /* half way round is behind */
    {GEQ, 0, UINT64_C(1) << 63, false, UINT64_C(1) << 63},
    {GEQ, 0, (UINT64_C(1) << 63) + 1, true, 0},
    {EQ, 7, 7, true, 0},
    {EQ, 0, 7, false, 7},
    {EQ, 7 + (UINT64_C(1) << 32), 7, false, 7},
    {EQ, UINT64_MAX, UINT64_MAX, true, 0},
    {AND, 0x10, 0x11, true, 0},
    {AND, 0x10, 0x0f, false, 0x01},
    {AND, UINT64_MAX, 0, false, 0}, /* never: see below */
    {AND, UINT64_C(1) << 63, UINT64_C(1) << 63, true, 0},
    {NOR, 0, 0, true, 0},
    {NOR, 0xf0, ~UINT64_C(0xff), true, 0},
    {NOR, 0xff, ~UINT64_C(0xff), false, 0x7f},
    {NOR, UINT64_MAX, 0, false, UINT64_MAX - 1},
};

START_TEST(truth_table)
{
    const uint32_t flag = conditions[_i].flag;

    host_write(conditions[_i].word);
    OK(aclrtValueWait(word, conditions[_i].value, flag, stream));
    if (!conditions[_i].holds) {
        await_blocked(1);
        expect_status(stream, ACL_STREAM_STATUS_NOT_READY);
        if (flag == AND && conditions[_i].value == 0) {
            OK(aclrtDestroyStreamForce(stream));
            return;
        }
        host_write(conditions[_i].then);
    }
    OK(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
    expect_status(stream, ACL_STREAM_STATUS_COMPLETE);
    ck_assert_uint_eq(device_word(word),
                      conditions[_i].holds ? conditions[_i].word : conditions[_i].then);
}
END_TEST

START_TEST(worked_cases)
{
    OK(aclrtValueWait(word, 1, EQ, stream));
    expect_status(stream, ACL_STREAM_STATUS_NOT_READY);
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 50));
    OK(aclrtValueWrite(word, 1, 0, other));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(other));
    ck_assert_uint_eq(device_word(word), 1);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(word, 1, 4, stream));
}
END_TEST

START_TEST(error_codes)
{
    uint64_t local = 0, *host = make_host_memory(8);
    aclrtStream s1;

    FAILS(ACL_ERROR_INVALID_PARAM, aclrtValueWrite(NULL, 1, 0, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtValueWait(NULL, 1, EQ, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(word, 1, 1, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(word, 1, 0x100, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(&local, 1, 0, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(host, 1, 0, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(host, 1, EQ, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite((char *)word + 4, 1, 0, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait((char *)word + 1, 1, EQ, stream));
    OK(aclrtValueWrite(word, 1, 0, NULL)); /* the default stream */
    OK(aclrtSynchronizeStream(NULL));
    ck_assert_uint_eq(device_word(word), 1);
    OK(aclrtSetDevice(1));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtValueWrite(word, 1, 0, stream));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtValueWait(word, 1, EQ, stream));
    OK(aclrtCreateStream(&s1));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtValueWrite(word, 2, 0, s1));
    OK(aclrtDestroyStream(s1));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtValueWrite(word, 2, 0, s1));
    OK(aclrtResetDevice(1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtValueWait(word, 1, EQ, stream));
}
END_TEST

/* --- what wakes --- */

static void by_value_write(uint64_t value)
{
    OK(aclrtValueWrite(word, value, 0, other));
}

static void by_copy_from_host(uint64_t value)
{
    uint64_t *host = make_host_memory(8);

    *host = value;
    OK(aclrtMemcpyAsync(word, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE, other));
}

/* Long, and the word is in the middle. */
static void by_big_copy(uint64_t value)
{
    const size_t size = 1 << 20;
    uint64_t *big = make_device_memory(size), *host = make_host_memory(size);
    aclrtStream third;

    OK(aclrtMemset(big, size, 0, size));
    memset(host, 0, size);
    host[size / 16] = value;
    OK(aclrtCreateStream(&third));
    OK(aclrtValueWait(&big[size / 16], value, EQ, third));
    OK(aclrtValueWrite(word, value, 0, third));
    await_blocked(2);
    OK(aclrtMemcpyAsync(big, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, other));
}

static void by_copy_on_device(uint64_t value)
{
    uint64_t *from = make_device_memory(8);

    OK(aclrtValueWrite(from, value, 0, other));
    OK(aclrtMemcpyAsync(word, 8, from, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, other));
}

static void by_pageable_copy(uint64_t value)
{
    OK(aclrtMemcpyAsync(word, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE, other));
}

static void by_buffered_copy(uint64_t value)
{
    OK(aclrtMemcpyAsync(word, 8, &value, 8, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, other));
}

static void by_set(uint64_t value)
{
    OK(aclrtMemsetAsync((char *)word + 1, 8, (int32_t)(value >> 8 & 0xff), 1, other));
    OK(aclrtMemsetAsync(word, 8, (int32_t)(value & 0xff), 1, other));
}

static void by_reduce(uint64_t value)
{
    uint64_t *from = make_device_memory(8);

    OK(aclrtValueWrite(from, value, 0, other));
    OK(aclrtReduceAsync(word, from, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, other, NULL));
}

static void *copy_in_thread(void *value)
{
    OK(aclrtSetDevice(0));
    host_write((uint64_t)(uintptr_t)value);
    OK(aclrtResetDevice(0));
    return NULL;
}

static void by_host_copy_of_a_thread(uint64_t value)
{
    thread_call(copy_in_thread, (void *)(uintptr_t)value);
}

static void by_host_set(uint64_t value)
{
    OK(aclrtMemset((char *)word + 1, 7, (int32_t)(value >> 8 & 0xff), 1));
    OK(aclrtMemset(word, 8, (int32_t)(value & 0xff), 1));
}

static void by_other_device(uint64_t value)
{
    aclrtContext back;
    aclrtStream there;

    OK(aclrtGetCurrentContext(&back));
    OK(aclrtSetDevice(1));
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtCreateStream(&there));
    OK(aclrtValueWrite(word, value, 0, there));
    OK(aclrtSetCurrentContext(back));
}

static void (*const wakers[])(uint64_t value) = {
    by_value_write,
    by_copy_from_host,
    by_big_copy,
    by_copy_on_device,
    by_pageable_copy,
    by_buffered_copy,
    by_set,
    by_reduce,
    by_host_set,
    by_other_device,
    by_host_copy_of_a_thread,
};

START_TEST(every_write_wakes)
{
    OK(aclrtValueWait(word, 0x1234, EQ, stream));
    await_blocked(1);
    wakers[_i](0x1234);
    OK(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
    OK(aclrtSynchronizeDevice());
    ck_assert_uint_eq(device_word(word), 0x1234);
}
END_TEST

/* A write that is not enough, and writes beside it, leave it asleep. */
START_TEST(other_writes_do_not_wake)
{
    aclrtStream far[100];

    OK(aclrtValueWait(&word[1], 5, GEQ, stream));
    for (int i = 0; i < 100; i++) {
        OK(aclrtCreateStream(&far[i]));
        OK(aclrtValueWait(&word[2 + i % 3], 5, GEQ, far[i]));
    }
    await_blocked(101);
    for (int i = 0; i < 8; i++)
        OK(aclrtValueWrite(&word[i], 4, 0, other));
    OK(aclrtValueWrite(&word[0], 5, 0, other));
    OK(aclrtMemset(&word[5], 80, 0xff, 80));
    OK(aclrtSynchronizeStream(other));
    await_blocked(101);
    OK(aclrtValueWrite(&word[1], 5, 0, other));
    OK(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
    await_blocked(100);
    OK(aclrtMemsetAsync(&word[2], 24, 1, 24, other)); /* all of them at once */
    for (int i = 0; i < 100; i++)
        OK(aclrtSynchronizeStreamWithTimeout(far[i], GUARD_MS));
}
END_TEST

/* A request would not be answered. */
static void copy_while_npud_stands(void *to)
{
    uint64_t value = 3;

    if (!npud_is_strict())
        kill(npud.pid, SIGSTOP);
    OK(aclrtMemcpy(to, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemset(to, 8, 0, 8));
    kill(npud.pid, SIGCONT);
}

/* Also if it is shared, a stream waits for a word elsewhere, or one has waited for a word here. */
START_TEST(copies_ask_npud_only_where_a_stream_waits)
{
    char *elsewhere = make_device_memory(4096), key[65];
    void *imported;

    copy_while_npud_stands(word);
    OK(aclrtValueWait(word, 7, EQ, stream));
    await_blocked(1);
    copy_while_npud_stands(elsewhere);
    OK(aclrtIpcMemGetExportKey(elsewhere, 4096, key, sizeof(key), 0));
    OK(aclrtIpcMemImportByKey(&imported, key, 0));
    copy_while_npud_stands(elsewhere);
    copy_while_npud_stands(imported);
    OK(aclrtValueWait(imported, 7, EQ, other));
    await_blocked(2);
    host_write(7);
    OK(aclrtMemcpy(elsewhere, 8, &(uint64_t){7}, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(other));
    copy_while_npud_stands(word);
    copy_while_npud_stands(elsewhere);
    copy_while_npud_stands(imported);
    OK(aclrtIpcMemClose(key));
    copy_while_npud_stands(elsewhere);
}
END_TEST

START_TEST(work_is_in_order_around_write_and_wait)
{
    const size_t size = 1 << 20;
    unsigned char *a = make_device_memory(size), *b = make_device_memory(size);

    for (uint64_t i = 1; i <= 20; i++) {
        OK(aclrtMemsetAsync(a, size, (int32_t)i, size, other));
        OK(aclrtValueWrite(word, i, 0, other));
        OK(aclrtValueWait(word, i, GEQ, stream));
        OK(aclrtMemcpyAsync(b, size, a, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(device_byte(b), i);
        ck_assert_uint_eq(device_byte(b + size - 1), i);
    }
}
END_TEST

/* Two streams, on one device or on two, that go on in turns. */
START_TEST(turns)
{
    aclrtContext back;
    aclrtStream peer = other;
    const uint64_t rounds = 3000;

    OK(aclrtGetCurrentContext(&back));
    if (_i) {
        OK(aclrtSetDevice(1));
        OK(aclrtDeviceEnablePeerAccess(0, 0));
        OK(aclrtCreateStream(&peer));
    }
    for (uint64_t i = 1; i <= rounds; i++) {
        OK(aclrtSetCurrentContext(back));
        OK(aclrtValueWait(&word[0], i, EQ, stream));
        OK(aclrtValueWrite(&word[1], i, 0, stream));
        if (_i)
            OK(aclrtSetDevice(1));
        OK(aclrtValueWrite(&word[0], i, 0, peer));
        OK(aclrtValueWait(&word[1], i, EQ, peer));
    }
    OK(aclrtSynchronizeStream(peer));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(device_word(&word[1]), rounds);
}
END_TEST

/* The host writes, the stream answers, at every moment of falling asleep. */
START_TEST(turns_with_the_host)
{
    for (uint64_t i = 1; i <= 3000; i++) {
        OK(aclrtValueWait(word, i, GEQ, stream));
        if (i % 3 == 0)
            expect_status(stream, ACL_STREAM_STATUS_NOT_READY);
        host_write(i);
        OK(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
    }
}
END_TEST

static void *write_all(void *arg)
{
    OK(aclrtSetDevice(0));
    for (uint64_t i = 1; i <= 2000; i++)
        OK(aclrtMemcpy(arg, 8, &i, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(several_threads_write_several_words)
{
    pthread_t thread[4];
    aclrtStream s[4];

    for (int t = 0; t < 4; t++) {
        OK(aclrtCreateStream(&s[t]));
        for (uint64_t i = 1; i <= 1000; i++)
            OK(aclrtValueWait(&word[t], 2 * i, GEQ, s[t]));
    }
    for (int t = 0; t < 4; t++)
        pthread_create(&thread[t], NULL, write_all, &word[t]);
    for (int t = 0; t < 4; t++)
        pthread_join(thread[t], NULL);
    for (int t = 0; t < 4; t++)
        OK(aclrtSynchronizeStreamWithTimeout(s[t], GUARD_MS));
}
END_TEST

/* --- ends --- */

START_TEST(freed_memory_fails_who_waits)
{
    OK(aclrtValueWait(word, 1, EQ, stream));
    OK(aclrtValueWait(word, 2, EQ, stream)); /* not looked at before the memory is gone */
    await_blocked(1);
    OK(aclrtFree(word));
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(blocked_streams(NULL), 0);
}
END_TEST

START_TEST(freed_memory_fails_who_writes)
{
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtValueWrite(word, 1, 0, stream));
    OK(aclrtReduceAsync(word, word + 1, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, other,
                        NULL));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtFree(word));
    stream_let_go(gate);
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
}
END_TEST

START_TEST(waiting_streams_can_be_destroyed)
{
    OK(aclrtValueWait(word, 1, EQ, stream));
    OK(aclrtValueWait(word, 1, EQ, other));
    await_blocked(2);
    OK(aclrtDestroyStreamForce(stream));
    await_blocked(1);
    host_write(1);
    OK(aclrtSynchronizeStreamWithTimeout(other, GUARD_MS));
}
END_TEST

static int wait_for_good(void *arg)
{
    (void)arg;
    open_device();
    OK(aclrtValueWait(word, 1, EQ, stream));
    await_blocked(1);
    turn_tell(&to_parent);
    return aclrtSynchronizeStream(stream);
}

static int write_behind_a_delay(void *arg)
{
    (void)arg;
    open_device();
    OK(aclrtValueWait(word, 1, EQ, stream));
    OK(aclnpudLaunchDelay(3600000000, 0, other));
    OK(aclrtValueWrite(word, 1, 0, other));
    await_blocked(1);
    turn_tell(&to_parent);
    return aclrtSynchronizeStream(stream);
}

START_TEST(death_of_waiter_and_writer)
{
    pid_t pid;

    turn_init(&to_parent);
    pid = child_start(_i ? write_behind_a_delay : wait_for_good, NULL);
    turn_await(&to_parent);
    child_kill(pid);
    npud_expect_empty();
}
END_TEST

/* --- deadlock --- */

static int wait_for_each_other(void *arg)
{
    (void)arg;
    open_device();
    OK(aclrtValueWait(&word[0], 1, GEQ, stream));
    OK(aclrtValueWrite(&word[1], 1, 0, stream));
    OK(aclrtValueWait(&word[1], 1, GEQ, other));
    OK(aclrtValueWrite(&word[0], 1, 0, other));
    turn_tell(&to_parent);
    return aclrtSynchronizeStream(stream);
}

START_TEST(deadlock_is_named)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    Npud__Report *r;
    pid_t pid;

    turn_init(&to_parent);
    pid = child_start(wait_for_each_other, NULL);
    turn_await(&to_parent);
    for (;;) {
        size_t n = blocked_streams(&r);

        ck_assert_msg(now_ns() < give_up, "%zu blocked, no deadlock", n);
        if (r->n_deadlocks == 1)
            break;
        npud__report__free_unpacked(r, NULL);
    }
/* The runtime of TSan has a thread in every process, and npud cannot know what it will do. */
#ifdef __SANITIZE_THREAD__
    ck_assert_str_eq(r->deadlocks[0]->certainty, "suspected");
#else
    ck_assert_str_eq(r->deadlocks[0]->certainty, "certain");
#endif
    ck_assert_ptr_nonnull(strstr(r->deadlocks[0]->members, "word 0 of allocation"));
    ck_assert_ptr_nonnull(strstr(r->deadlocks[0]->members, "word 1 of allocation"));
    ck_assert_ptr_nonnull(strstr(r->deadlocks[0]->members, ">= 1"));
    npud__report__free_unpacked(r, NULL);
    child_kill(pid);
    npud_expect_empty();
}
END_TEST

/* A word that only a thread could write: not a deadlock while one is awake. */
START_TEST(no_deadlock_while_somebody_may_write)
{
    Npud__Report *r;

    OK(aclrtValueWait(word, 1, GEQ, stream));
    await_blocked(1);
    blocked_streams(&r);
    ck_assert_uint_eq(r->n_deadlocks, 0);
    ck_assert_ptr_nonnull(strstr(r->waits[0]->blocker, "not submitted"));
    npud__report__free_unpacked(r, NULL);
    OK(aclnpudLaunchDelay(3600000000, 0, other));
    OK(aclrtMemsetAsync(word, 8, 1, 8, other));
    blocked_streams(&r);
    ck_assert_ptr_null(strstr(r->waits[0]->blocker, "not submitted"));
    npud__report__free_unpacked(r, NULL);
    OK(aclrtDestroyStreamForce(other));
    OK(aclrtDestroyStreamForce(stream));
}
END_TEST

/* --- reductions: the reference is computed here, another way --- */

enum { SUM = 10, MAX = 11, MIN = 12, EQUAL = 13 };

static const struct type {
    aclDataType type;
    size_t size;
    int bits; /* of an integer; 0: a float */
    bool is_signed;
    int mantissa; /* of a float, without the leading one */
    int bias;
} types[] = {
    {ACL_INT4, 1, 4, true, 0, 0},     {ACL_INT8, 1, 8, true, 0, 0},
    {ACL_INT16, 2, 16, true, 0, 0},   {ACL_INT32, 4, 32, true, 0, 0},
    {ACL_UINT8, 1, 8, false, 0, 0},   {ACL_UINT16, 2, 16, false, 0, 0},
    {ACL_UINT32, 4, 32, false, 0, 0}, {ACL_FLOAT16, 2, 0, true, 10, 15},
    {ACL_BF16, 2, 0, true, 7, 127},   {ACL_FLOAT, 4, 0, true, 23, 127},
};

static uint64_t lcg = 1;

static uint32_t random_bits(void)
{
    lcg = lcg * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(lcg >> 32);
}

/* The value of a float of this type, exactly. */
static double decode_float(const struct type *t, uint32_t bits)
{
    int total = t->size == 4 ? 32 : 16, exponent_bits = total - 1 - t->mantissa;
    int exponent = (int)(bits >> t->mantissa & ((1u << exponent_bits) - 1));
    double fraction = bits & ((1u << t->mantissa) - 1), sign = bits >> (total - 1) ? -1 : 1;

    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - t->bias - t->mantissa);
    return sign * ldexp(fraction + (1u << t->mantissa), exponent - t->bias - t->mantissa);
}

/*
 * The float of this type that is nearest; of two, the even one. By search: codes of positive floats
 * are in the order of their values.
 */
static uint32_t encode_float(const struct type *t, double value)
{
    int total = t->size == 4 ? 32 : 16;
    uint32_t infinity = ((1u << (total - 1 - t->mantissa)) - 1) << t->mantissa;
    uint32_t sign = signbit(value) ? 1u << (total - 1) : 0, low = 0, high = infinity;
    double below, above;

    value = fabs(value);
    if (isinf(value))
        return sign | infinity;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;

        if (decode_float(t, mid) <= value)
            low = mid;
        else
            high = mid;
    }
    below = decode_float(t, low);
    above = high == infinity ? 2 * decode_float(t, infinity - 1) - decode_float(t, infinity - 2)
                             : decode_float(t, high);
    if (above - value < value - below || (above - value == value - below && (low & 1)))
        low = high;
    return sign | low;
}

static uint32_t expect_float(const struct type *t, uint32_t x, uint32_t y, int kind)
{
    double a = decode_float(t, x), b = decode_float(t, y);

    switch (kind) {
    case SUM:
        return encode_float(t, a + b);
    case MAX:
        return a > b ? x : y;
    case MIN:
        return a < b ? x : y;
    default:
        return encode_float(t, a == b);
    }
}

static int64_t decode_integer(const struct type *t, uint32_t bits)
{
    int64_t mask = (INT64_C(1) << t->bits) - 1, value = bits & mask;

    return t->is_signed && value > mask / 2 ? value - mask - 1 : value;
}

static uint32_t expect_integer(const struct type *t, uint32_t x, uint32_t y, int kind)
{
    int64_t a = decode_integer(t, x), b = decode_integer(t, y);
    int64_t r = kind == SUM   ? a + b
                : kind == MAX ? (a > b ? a : b)
                : kind == MIN ? (a < b ? a : b)
                              : a == b;

    return (uint32_t)(r & ((INT64_C(1) << t->bits) - 1));
}

static uint32_t compute_expected(const struct type *t, uint32_t x, uint32_t y, int kind)
{
    if (t->type == ACL_INT4)
        return expect_integer(t, x, y, kind) | expect_integer(t, x >> 4, y >> 4, kind) << 4;
    return t->bits ? expect_integer(t, x, y, kind) : expect_float(t, x, y, kind);
}

/*
 * Finite, and of exponents so near that a double holds the exact sum; sometimes equal, tiny or
 * huge.
 */
static uint32_t random_element(const struct type *t, uint32_t like)
{
    uint32_t r = random_bits(), top = random_bits() % 16;

    if (top == 0)
        return like;
    if (t->bits)
        return r & (uint32_t)((UINT64_C(1) << (8 * t->size)) - 1);
    if (t->type == ACL_FLOAT16)
        return (r & 0x7c00) == 0x7c00 ? r & 0xbfff : r & 0xffff;
    if (t->type == ACL_BF16) /* exponents 127 +- 15 */
        return (r & 0x807f) | (112 + (r >> 16) % 31) << 7;
    return (r & 0x807fffff) | (119 + (r >> 23 & 0xff) % 16) << 23;
}

static uint32_t load_element(const void *base, size_t size, size_t i)
{
    uint32_t value = 0;

    memcpy(&value, (const char *)base + i * size, size);
    return value;
}

static void store_element(void *base, size_t size, size_t i, uint32_t value)
{
    memcpy((char *)base + i * size, &value, size);
}

static void check_reduction(const struct type *t, int kind, size_t n)
{
    size_t bytes = n * t->size;
    char *dst = make_device_memory(bytes + 8), *src = make_device_memory(bytes + 8);
    char *x = make_host_memory(bytes + 8), *y = make_host_memory(bytes + 8);
    uint32_t *wanted = calloc(n, sizeof(*wanted));

    for (size_t i = 0; i < n; i++) {
        uint32_t a = random_element(t, 0), b = random_element(t, a);

        store_element(x + t->size, t->size, i, a);
        store_element(y + t->size, t->size, i, b);
        wanted[i] = compute_expected(t, a, b, kind);
    }
    store_element(x, 1, 0, 0x5a); /* beside it */
    store_element(x + t->size, 1, bytes, 0xa5);
    device_put(dst, x, bytes + 8);
    device_put(src, y, bytes + 8);
    OK(aclrtReduceAsync(dst + t->size, src + t->size, bytes, (aclrtReduceKind)kind, t->type, stream,
                        NULL));
    OK(aclrtSynchronizeStream(stream));
    device_get(x, dst, bytes + 8);
    for (size_t i = 0; i < n; i++) {
        uint32_t got = load_element(x + t->size, t->size, i);

        ck_assert_msg(got == wanted[i], "type %d, kind %d, element %zu of %zu: %x, expected %x",
                      t->type, kind, i, n, got, wanted[i]);
    }
    ck_assert_uint_eq(load_element(x, 1, 0), 0x5a);
    ck_assert_uint_eq(load_element(x + t->size, 1, bytes), 0xa5);
    free(wanted);
    OK(aclrtFreeHost(x));
    OK(aclrtFreeHost(y));
    OK(aclrtFree(dst));
    OK(aclrtFree(src));
}

START_TEST(reductions)
{
    static const size_t sizes[] = {1, 2, 3, 17, 1023, 4097, 20011};
    const struct type *t = &types[_i];

    for (int kind = SUM; kind <= EQUAL; kind++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            if (t->type != ACL_INT4 || kind != EQUAL)
                check_reduction(t, kind, sizes[i]);
}
END_TEST

static uint32_t reduce_one(aclDataType type, int kind, uint32_t a, uint32_t b)
{
    uint32_t *dst = make_device_memory(4), *src = make_device_memory(4), result;

    device_put(dst, &a, 4);
    device_put(src, &b, 4);
    OK(aclrtReduceAsync(dst, src, type == ACL_FLOAT ? 4 : 2, (aclrtReduceKind)kind, type, stream,
                        NULL));
    OK(aclrtSynchronizeStream(stream));
    device_get(&result, dst, 4);
    OK(aclrtFree(dst));
    OK(aclrtFree(src));
    return result;
}

/* What random numbers do not come by. */
START_TEST(special_floats)
{
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x7bff, 0x7bff), 0x7c00); /* too large */
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0xfbff, 0xfbff), 0xfc00);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x7bff, 0x4bff), 0x7bff); /* rounds down */
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x7bff, 0x4c00), 0x7c00); /* a tie: up */
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x0001, 0x0001), 0x0002); /* subnormal */
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x3c00, 0x1000), 0x3c00); /* a tie: even */
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x3c01, 0x1000), 0x3c02);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, SUM, 0x7c00, 0xfc00) & 0x7e00, 0x7e00); /* NaN */
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, MAX, 0x7e00, 0x3c00) & 0x7e00, 0x7e00);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, MIN, 0x3c00, 0x7e00) & 0x7e00, 0x7e00);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, EQUAL, 0x7e00, 0x7e00), 0);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT16, EQUAL, 0x0000, 0x8000), 0x3c00);
    ck_assert_uint_eq(reduce_one(ACL_BF16, SUM, 0x3f80, 0x3b80), 0x3f80); /* a tie: even */
    ck_assert_uint_eq(reduce_one(ACL_BF16, SUM, 0x3f81, 0x3b80), 0x3f82);
    ck_assert_uint_eq(reduce_one(ACL_BF16, SUM, 0x7f7f, 0x7f7f), 0x7f80);
    ck_assert_uint_eq(reduce_one(ACL_BF16, SUM, 0x7f80, 0xff80) & 0x7fc0, 0x7fc0);
    ck_assert_uint_eq(reduce_one(ACL_BF16, MAX, 0x7f81, 0x3f80) & 0x7fc0, 0x7fc0);
    ck_assert_uint_eq(reduce_one(ACL_BF16, EQUAL, 0x3f80, 0x3f80), 0x3f80);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT, SUM, 0x7f7fffff, 0x7f7fffff), 0x7f800000);
    ck_assert_uint_eq(reduce_one(ACL_FLOAT, EQUAL, 0x3f800000, 0x3f800000), 0x3f800000);
}
END_TEST

START_TEST(reduce_errors)
{
    char *d = (char *)word, *s = d + 2048;
    uint64_t local[2];

#define REDUCE(dst, src, count, kind, type)                                                        \
    aclrtReduceAsync(dst, src, count, (aclrtReduceKind)(kind), type, stream, NULL)
    FAILS(ACL_ERROR_INVALID_PARAM, REDUCE(NULL, s, 8, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_INVALID_PARAM, REDUCE(d, NULL, 8, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtReduceAsync(d, s, 8, (aclrtReduceKind)SUM, ACL_FLOAT, stream, d));
    FAILS(ACL_ERROR_INVALID_PARAM, REDUCE(d, s, 8, SUM, ACL_INT64));
    FAILS(ACL_ERROR_INVALID_PARAM, REDUCE(d, s, 8, SUM, ACL_DT_UNDEFINED));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, s, 0, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, s, 6, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, s, 8, SUM - 1, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, s, 8, EQUAL + 1, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, s, (UINT64_C(4) << 30) + 4, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, REDUCE(d, s, 8, EQUAL, ACL_INT4));
    FAILS(ACL_ERROR_RT_ADDR_UNALIGNED, REDUCE(d + 1, s, 8, SUM, ACL_FLOAT16));
    FAILS(ACL_ERROR_RT_ADDR_UNALIGNED, REDUCE(d, s + 2, 8, SUM, ACL_INT32));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(local, s, 8, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, local, 8, SUM, ACL_FLOAT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, REDUCE(d, s, 1 << 20, SUM, ACL_FLOAT));
    OK(REDUCE(d + 1, s + 3, 5, SUM, ACL_INT8));
    OK(aclrtSetDevice(1));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, REDUCE(d, s, 8, SUM, ACL_FLOAT));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("value");
    TCase *waits = suite_case(s, "value waits", 120, set_up_test, npud_teardown);
    TCase *ends = suite_case(s, "ends", 60, npud_setup, npud_teardown);
    TCase *reduce = suite_case(s, "reductions", 120, set_up_test, npud_teardown);

    tcase_add_loop_test(waits, truth_table, 0, sizeof(conditions) / sizeof(conditions[0]));
    tcase_add_test(waits, worked_cases);
    tcase_add_test(waits, error_codes);
    tcase_add_loop_test(waits, every_write_wakes, 0, sizeof(wakers) / sizeof(wakers[0]));
    tcase_add_test(waits, other_writes_do_not_wake);
    tcase_add_test(waits, copies_ask_npud_only_where_a_stream_waits);
    tcase_add_test(waits, work_is_in_order_around_write_and_wait);
    tcase_add_loop_test(waits, turns, 0, 2);
    tcase_add_test(waits, turns_with_the_host);
    tcase_add_test(waits, several_threads_write_several_words);
    tcase_add_test(waits, freed_memory_fails_who_waits);
    tcase_add_test(waits, freed_memory_fails_who_writes);
    tcase_add_test(waits, waiting_streams_can_be_destroyed);
    tcase_add_test(waits, no_deadlock_while_somebody_may_write);
    tcase_add_loop_test(ends, death_of_waiter_and_writer, 0, 2);
    tcase_add_test(ends, deadlock_is_named);
    tcase_add_loop_test(reduce, reductions, 0, sizeof(types) / sizeof(types[0]));
    tcase_add_test(reduce, special_floats);
    tcase_add_test(reduce, reduce_errors);
    return run_suite(s);
}
