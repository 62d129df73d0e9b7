/* Queues within one process: what the calls accept, what they refuse, and how long they wait. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "queue_kit.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"

#define UNKNOWN_ID 77u
#define NO_ID      4096u
#define ALL        7u

static void set_up_test(void)
{
    npud_setup();
    OK(aclInit(NULL));
}

static void tear_down_test(void)
{
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

/* --- creating --- */

static aclError create_with_depth(uint32_t depth, uint32_t *qid)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    aclError error;

    ck_assert_ptr_nonnull(attr);
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    error = acltdtCreateQueue(attr, qid);
    OK(acltdtDestroyQueueAttr(attr));
    return error;
}

/* A queue of depth n holds n messages, and gives them back in order. */
static void expect_holds(uint32_t qid, uint32_t depth)
{
    acltdtBuf extra = buffer_of(0);

    for (uint32_t i = 0; i < depth; i++)
        OK(acltdtEnqueue(qid, buffer_of(i), 0));
    FAILS_SAYING(ACL_ERROR_RT_QUEUE_FULL, "is full", acltdtEnqueue(qid, extra, 0));
    OK(acltdtFreeBuf(extra));
    for (uint32_t i = 0; i < depth; i++)
        ck_assert_uint_eq(take_value(qid, 0), i);
    FAILS_SAYING(ACL_ERROR_RT_QUEUE_EMPTY, "is empty", acltdtDequeue(qid, &extra, 0));
}

START_TEST(depths)
{
    static const uint32_t good[] = {2, 3, 8, 8192}, bad[] = {0, 1, 8193, UINT32_MAX};
    uint32_t qid = UNKNOWN_ID;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        FAILS(ACL_ERROR_RT_PARAM_INVALID, create_with_depth(bad[i], &qid));
    ck_assert_uint_eq(qid, UNKNOWN_ID);
    OK(acltdtCreateQueue(NULL, &qid));
    expect_holds(qid, 8);
    OK(acltdtDestroyQueue(qid));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        OK(create_with_depth(good[i], &qid));
        expect_holds(qid, good[i]);
        expect_holds(qid, good[i]);
        OK(acltdtDestroyQueue(qid));
    }
}
END_TEST

/*
 * More messages than the depth, at every fill level, so that positions wrap around the ring
 * everywhere.
 */
START_TEST(order_with_wrap_around)
{
    uint64_t put = 0, got = 0;
    uint32_t qid;

    OK(create_with_depth(5, &qid));
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned i = 0; i < 1 + round % 5; i++)
            OK(acltdtEnqueue(qid, buffer_of(put++), 0));
        while (got < put)
            ck_assert_uint_eq(take_value(qid, 0), got++);
    }
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(many_queues)
{
    static uint32_t qid[4096];
    uint32_t one_more;

    if (!need_fds(__func__, 16384)) /* three of each queue, and npud sends copies */
        return;
    for (uint32_t i = 0; i < 4096; i++) {
        OK(create_with_depth(2, &qid[i]));
        ck_assert_uint_lt(qid[i], 4096);
    }
    FAILS(ACL_ERROR_RT_OVER_LIMIT, acltdtCreateQueue(NULL, &one_more));
    for (uint32_t i = 0; i < 4096; i++)
        OK(acltdtEnqueue(qid[i], buffer_of(i), 0));
    for (uint32_t i = 0; i < 4096; i++)
        ck_assert_uint_eq(take_value(qid[i], 0), i);
    for (uint32_t i = 0; i < 4096; i++)
        OK(acltdtDestroyQueue(qid[i]));
    OK(acltdtCreateQueue(NULL, &one_more));
    OK(acltdtDestroyQueue(one_more));
}
END_TEST

/* --- what is refused --- */

START_TEST(null_arguments)
{
    uint32_t qid, rights;
    size_t n;
    char c = 0;

    OK(acltdtCreateQueue(NULL, &qid));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtCreateQueue(NULL, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtAttachQueue(qid, 0, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtEnqueue(qid, NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDequeue(qid, NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtEnqueueData(qid, NULL, 1, NULL, 0, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtEnqueueData(qid, &c, 0, NULL, 0, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDequeueData(qid, NULL, 1, &n, NULL, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDequeueData(qid, &c, 0, &n, NULL, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDequeueData(qid, &c, 1, NULL, NULL, 0, 0));
    OK(acltdtAttachQueue(qid, 0, &rights));
    ck_assert_uint_eq(rights, ALL);
    OK(acltdtDestroyQueue(qid));
}
END_TEST

/* Every call with an id that cannot be, and with one that is not. */
static void expect_no_queue(uint32_t qid, aclError code)
{
    acltdtBuf buf = buffer_of(1), got = NULL;
    uint32_t rights = 99;
    size_t n = 99;
    char c = 'c';

    FAILS(code, acltdtDestroyQueue(qid));
    FAILS(code, acltdtGrantQueue(qid, getpid(), ALL, 0));
    FAILS(code, acltdtAttachQueue(qid, 0, &rights));
    FAILS(code, acltdtAttachQueue(qid, -1, &rights));
    FAILS(code, acltdtEnqueue(qid, buf, -1));
    FAILS(code, acltdtDequeue(qid, &got, -1));
    FAILS(code, acltdtEnqueueData(qid, &c, 1, NULL, 0, -1, 0));
    FAILS(code, acltdtDequeueData(qid, &c, 1, &n, NULL, 0, -1));
    ck_assert_ptr_null(got);
    ck_assert_uint_eq(rights, 99);
    ck_assert_uint_eq(n, 99);
    ck_assert_int_eq(c, 'c');
    ck_assert_uint_eq(buffer_value(buf), 1);
    OK(acltdtFreeBuf(buf));
}

START_TEST(no_such_queue)
{
    uint32_t qid;

    expect_no_queue(NO_ID, ACL_ERROR_RT_PARAM_INVALID);
    expect_no_queue(UINT32_MAX, ACL_ERROR_RT_PARAM_INVALID);
    expect_no_queue(UNKNOWN_ID, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtDestroyQueue(qid));
    expect_no_queue(qid, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
}
END_TEST

START_TEST(grants_refused)
{
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGrantQueue(qid, 0, ALL, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGrantQueue(qid, -1, ALL, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGrantQueue(qid, getpid(), 8, 0));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, acltdtGrantQueue(qid, 0x3fffffff, ALL, 0));
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(attach_timeout_refused)
{
    uint32_t qid, rights;

    OK(acltdtCreateQueue(NULL, &qid));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtAttachQueue(qid, -2, &rights));
    OK(acltdtAttachQueue(qid, -1, &rights));
    OK(acltdtDestroyQueue(qid));
}
END_TEST

/* --- handles --- */

/* In every function that takes one. */
static void expect_dead(uint32_t qid, acltdtBuf buf)
{
    acltdtBuf other = buffer_of(2), out;
    uint32_t n;
    size_t size;
    void *data;
    char c = 0;

    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueue(qid, buf, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtFreeBuf(buf));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufData(buf, &data, &size));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtSetBufDataLen(buf, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufDataLen(buf, &size));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtSetBufUserData(buf, &c, 1, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufUserData(buf, &c, 1, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtCopyBufRef(buf, &out));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtAppendBufChain(buf, other));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtAppendBufChain(other, buf));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufChainNum(buf, &n));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufFromChain(buf, 0, &out));
    OK(acltdtFreeBuf(other));
}

START_TEST(handle_is_dead_after_enqueue)
{
    acltdtBuf buf = buffer_of(1), got;
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtEnqueue(qid, buf, 0));
    expect_dead(qid, buf);
    OK(acltdtDequeue(qid, &got, 0));
    ck_assert_uint_eq(buffer_value(got), 1);
    ck_assert_ptr_ne(got, buf);
    expect_dead(qid, buf);
    OK(acltdtFreeBuf(got));
    expect_dead(qid, got);
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(failed_enqueue_keeps_the_buffer)
{
    acltdtBuf buf = buffer_of(3), copy;
    uint32_t qid;

    OK(create_with_depth(2, &qid));
    OK(acltdtEnqueue(qid, buffer_of(1), 0));
    OK(acltdtEnqueue(qid, buffer_of(2), 0));
    for (int timeout = 0; timeout < 3; timeout++)
        FAILS(ACL_ERROR_RT_QUEUE_FULL, acltdtEnqueue(qid, buf, timeout));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtEnqueue(UNKNOWN_ID, buf, 0));
    ck_assert_uint_eq(buffer_value(buf), 3);
    OK(acltdtCopyBufRef(buf, &copy));
    OK(acltdtFreeBuf(copy));
    ck_assert_uint_eq(take_value(qid, 0), 1);
    OK(acltdtEnqueue(qid, buf, 0));
    ck_assert_uint_eq(take_value(qid, 0), 2);
    ck_assert_uint_eq(take_value(qid, 0), 3);
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(only_heads_are_enqueued)
{
    acltdtBuf head = chain_of(10, 3), member;
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtGetBufFromChain(head, 1, &member));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueue(qid, member, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueue(qid, (acltdtBuf)(uintptr_t)0x1234, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueue(qid, &member, 0));
    OK(acltdtEnqueue(qid, head, 0));
    expect_dead(qid, head);
    expect_dead(qid, member);
    OK(acltdtDequeue(qid, &head, 0));
    expect_chain(head, 10, 3);
    /* The member is in its chain again, but this name of it was given out before. */
    expect_dead(qid, member);
    OK(acltdtFreeBuf(head));
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(longest_chain)
{
    acltdtBuf head = chain_of(1000, 128);
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    for (int i = 0; i < 20; i++) {
        OK(acltdtEnqueue(qid, head, 0));
        OK(acltdtDequeue(qid, &head, 0));
    }
    expect_chain(head, 1000, 128);
    OK(acltdtFreeBuf(head));
    OK(acltdtDestroyQueue(qid));
}
END_TEST

/* References go their own ways, the data is the same. */
START_TEST(references)
{
    acltdtBuf buf = buffer_of(5), copy, got;
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtCopyBufRef(buf, &copy));
    OK(acltdtEnqueue(qid, buf, 0));
    OK(acltdtDequeue(qid, &got, 0));
    ck_assert_ptr_eq(buffer_data(got), buffer_data(copy));
    *buffer_data(copy) = 6;
    ck_assert_uint_eq(*buffer_data(got), 6);
    OK(acltdtFreeBuf(got));
    ck_assert_uint_eq(*buffer_data(copy), 6);
    OK(acltdtEnqueue(qid, copy, 0));
    OK(acltdtDequeue(qid, &got, 0));
    ck_assert_uint_eq(*buffer_data(got), 6);
    ck_assert_uint_eq(buffer_value(got), 5);
    OK(acltdtFreeBuf(got));
    OK(acltdtDestroyQueue(qid));
}
END_TEST

/* --- by bytes --- */

START_TEST(data_there_and_back)
{
    char data[100], user[96], got[100], got_user[96];
    size_t size = 0;
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    memset(data, 'd', sizeof(data));
    memset(user, 'u', sizeof(user));
    OK(acltdtEnqueueData(qid, data, sizeof(data), user, sizeof(user), 0, 0));
    OK(acltdtDequeueData(qid, got, sizeof(got), &size, got_user, sizeof(got_user), 0));
    ck_assert_uint_eq(size, sizeof(data));
    ck_assert_mem_eq(got, data, sizeof(data));
    ck_assert_mem_eq(got_user, user, sizeof(user));
    /* Bytes that were not set are zero, also where others were set before in the same memory. */
    OK(acltdtEnqueueData(qid, data, sizeof(data), "ab", 2, 0, 0));
    OK(acltdtDequeueData(qid, got, sizeof(got), &size, got_user, sizeof(got_user), 0));
    ck_assert_mem_eq(got_user, "ab\0\0", 4);
    ck_assert_int_eq(got_user[95], 0);
    OK(acltdtEnqueueData(qid, data, sizeof(data), NULL, 0, 0, 0));
    OK(acltdtDequeueData(qid, got, sizeof(got), &size, got_user, sizeof(got_user), 0));
    ck_assert_int_eq(got_user[0], 0);
    OK(acltdtEnqueueData(qid, data, sizeof(data), user, 96, 0, 0));
    OK(acltdtDequeueData(qid, got, sizeof(got), &size, NULL, 0, 0));
    OK(acltdtDestroyQueue(qid));
}
END_TEST

/* What fits is copied, the message is gone, and its full length tells of the loss. */
START_TEST(data_into_too_little_room)
{
    char data[100], got[100];
    size_t size = 0;
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    memset(data, 'd', sizeof(data));
    memset(got, '-', sizeof(got));
    OK(acltdtEnqueueData(qid, data, sizeof(data), NULL, 0, 0, 0));
    OK(acltdtDequeueData(qid, got, 30, &size, NULL, 0, 0));
    ck_assert_uint_eq(size, sizeof(data));
    ck_assert_mem_eq(got, data, 30);
    ck_assert_int_eq(got[30], '-');
    size = 1234;
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeueData(qid, got, 100, &size, NULL, 0, 0));
    ck_assert_uint_eq(size, 1234);
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(data_refused)
{
    char c = 'c', user[300] = {0};
    uint32_t qid;
    size_t n;

    OK(acltdtCreateQueue(NULL, &qid));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueueData(qid, &c, 1, NULL, 1, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueueData(qid, &c, 1, user, 0, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtEnqueueData(qid, &c, 1, user, 97, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtEnqueueData(qid, &c, 1, user, 256, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueueData(qid, &c, 1, user, 257, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          acltdtEnqueueData(qid, &c, (UINT64_C(4) << 30) + 1, NULL, 0, 0, 0));
    OK(acltdtEnqueueData(qid, &c, 1, NULL, 0, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtDequeueData(qid, &c, 1, &n, NULL, 1, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtDequeueData(qid, &c, 1, &n, user, 0, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDequeueData(qid, &c, 1, &n, user, 97, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtDequeueData(qid, &c, 1, &n, user, 257, 0));
    /* None of these took the message. */
    OK(acltdtDequeueData(qid, &c, 1, &n, NULL, 0, 0));
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(c, 'c');
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(data_and_buffers_mixed)
{
    acltdtBuf head = chain_of(20, 3), got;
    uint64_t out[4] = {0}, value = 9;
    uint32_t qid;
    size_t n;

    OK(acltdtCreateQueue(NULL, &qid));
    /* The buffers of a chain, one behind the other. */
    OK(acltdtEnqueue(qid, head, 0));
    OK(acltdtDequeueData(qid, out, sizeof(out), &n, NULL, 0, 0));
    ck_assert_uint_eq(n, 3 * sizeof(uint64_t));
    ck_assert(out[0] == 20 && out[1] == 21 && out[2] == 22);
    OK(acltdtEnqueue(qid, chain_of(30, 3), 0));
    OK(acltdtDequeueData(qid, out, 12, &n, NULL, 0, 0));
    ck_assert_uint_eq(n, 3 * sizeof(uint64_t));
    ck_assert(out[0] == 30 && (uint32_t)out[1] == 31);
    OK(acltdtEnqueueData(qid, &value, sizeof(value), "xyz", 3, 0, 0));
    OK(acltdtDequeue(qid, &got, 0));
    ck_assert_uint_eq(*buffer_data(got), 9);
    OK(acltdtGetBufDataLen(got, &n));
    ck_assert_uint_eq(n, sizeof(value));
    OK(acltdtGetBufUserData(got, out, 3, 0));
    ck_assert_mem_eq(out, "xyz", 3);
    OK(acltdtFreeBuf(got));
    /* A buffer whose length was never set has none. */
    OK(acltdtAllocBuf(8, ACL_TDT_NORMAL_MEM, &got));
    OK(acltdtEnqueue(qid, got, 0));
    OK(acltdtDequeueData(qid, out, 8, &n, NULL, 0, 0));
    ck_assert_uint_eq(n, 0);
    OK(acltdtDestroyQueue(qid));
}
END_TEST

START_TEST(data_in_device_memory)
{
    char host[64];
    uint32_t qid;
    void *device;
    size_t n;

    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(device, 64, 7, 64));
    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtEnqueueData(qid, device, 64, NULL, 0, 0, 0));
    OK(acltdtDequeueData(qid, host, 64, &n, NULL, 0, 0));
    ck_assert(host[0] == 7 && host[63] == 7);
    memset(host, 8, sizeof(host));
    OK(acltdtEnqueueData(qid, host, 64, NULL, 0, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtDequeueData(qid, device, 1 << 20, &n, NULL, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtEnqueueData(qid, device, 1 << 20, NULL, 0, 0, 0));
    OK(acltdtDequeueData(qid, device, 64, &n, NULL, 0, 0));
    memset(host, 0, sizeof(host));
    OK(aclrtMemcpy(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(host[0] == 8 && host[63] == 8);
    OK(acltdtDestroyQueue(qid));
    OK(aclrtFree(device));
    OK(aclrtResetDevice(0));
}
END_TEST

/* --- time --- */

/*
 * Each of the four calls on a queue where it can do nothing: full for those that put, empty for
 * those that take.
 */
enum { ENQUEUE, ENQUEUE_DATA, DEQUEUE, DEQUEUE_DATA, CALLS };

static struct stuck {
    uint32_t full, empty;
    acltdtBuf buf;
} stuck;

static aclError call_queue(int which, int32_t timeout)
{
    acltdtBuf got;
    aclError error;
    size_t n;
    char c;

    switch (which) {
    case ENQUEUE:
        return acltdtEnqueue(stuck.full, stuck.buf, timeout);
    case ENQUEUE_DATA:
        return acltdtEnqueueData(stuck.full, "x", 1, NULL, 0, timeout, 0);
    case DEQUEUE:
        error = acltdtDequeue(stuck.empty, &got, timeout);
        if (error == 0)
            OK(acltdtFreeBuf(got));
        return error;
    default:
        return acltdtDequeueData(stuck.empty, &c, 1, &n, NULL, 0, timeout);
    }
}

static void make_stuck_queues(void)
{
    OK(create_with_depth(2, &stuck.full));
    OK(create_with_depth(2, &stuck.empty));
    stuck.buf = buffer_of(3);
    OK(acltdtEnqueue(stuck.full, buffer_of(1), 0));
    OK(acltdtEnqueue(stuck.full, buffer_of(2), 0));
}

static void free_stuck_queues(void)
{
    OK(acltdtFreeBuf(stuck.buf));
    OK(acltdtDestroyQueue(stuck.full));
    OK(acltdtDestroyQueue(stuck.empty));
}

/* Not earlier than asked; and not later, but for what the machine gave to others meanwhile. */
START_TEST(timeouts)
{
    static const int32_t limits[] = {0, 1, 20, 60};

    make_stuck_queues();
    for (int which = 0; which < CALLS; which++)
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
            uint64_t waited = cpu_wait_ns(getpid()), begun = now_ns(), took;

            FAILS(which < DEQUEUE ? ACL_ERROR_RT_QUEUE_FULL : ACL_ERROR_RT_QUEUE_EMPTY,
                  call_queue(which, limits[i]));
            took = now_ns() - begun;
            waited = cpu_wait_ns(getpid()) - waited;
            ck_assert_uint_ge(took, (uint64_t)limits[i] * 1000000);
            ck_assert_msg(took <= (uint64_t)limits[i] * 1000000 + waited + promised_ns(20),
                          "call %d: %d ms took %llu us", which, limits[i],
                          (unsigned long long)took / 1000);
        }
    free_stuck_queues();
}
END_TEST

/* A thread that makes one of the calls. */
struct caller {
    pthread_t thread;
    int which;
    int32_t timeout;
    aclError result;
    _Atomic uint64_t returned;
};

static void *make_call(void *arg)
{
    struct caller *c = arg;

    c->result = call_queue(c->which, c->timeout);
    c->returned = now_ns();
    return NULL;
}

/* Returns when that thread sleeps, as the one of `asleep` that do; 0: at once. */
static void begin_call(struct caller *c, int which, int32_t timeout, unsigned asleep)
{
    *c = (struct caller){.which = which, .timeout = timeout};
    pthread_create(&c->thread, NULL, make_call, c);
    if (asleep > 0)
        await_asleep(getpid(), asleep);
}

static aclError end_call(struct caller *c)
{
    pthread_join(c->thread, NULL);
    return c->result;
}

/* Any negative timeout means no limit. A sleeping thread is woken when the other side acts. */
START_TEST(no_limit)
{
    struct caller c;
    acltdtBuf got;

    make_stuck_queues();
    for (int32_t timeout = -1; timeout > -1000; timeout -= 400)
        for (int which = ENQUEUE_DATA; which < CALLS; which++) {
            begin_call(&c, which, timeout, 1);
            if (which < DEQUEUE) {
                OK(acltdtDequeue(stuck.full, &got, 0));
                OK(acltdtFreeBuf(got));
            } else {
                OK(acltdtEnqueueData(stuck.empty, "x", 1, NULL, 0, 0, 0));
            }
            ck_assert_int_eq(end_call(&c), 0);
        }
    begin_call(&c, ENQUEUE, INT32_MIN, 1);
    OK(acltdtDequeue(stuck.full, &got, 0));
    OK(acltdtFreeBuf(got));
    ck_assert_int_eq(end_call(&c), 0);
    stuck.buf = buffer_of(0);
    free_stuck_queues();
}
END_TEST

/*
 * A consumer that is woken and finds that another was faster goes on waiting, for the rest of its
 * time only. Chance decides which consumer is faster, and how many attempts it takes until this
 * consumer has lost until its time is up.
 */
START_TEST(limit_is_a_total)
{
    struct caller c;
    unsigned stolen = 0;

    make_stuck_queues();
    for (unsigned tries = 0; tries < 40 && stolen == 0; tries++) {
        uint64_t begun = now_ns();
        acltdtBuf got;

        begin_call(&c, tries % 2 ? DEQUEUE : DEQUEUE_DATA, 50, 0);
        while (atomic_load(&c.returned) == 0) {
            OK(acltdtEnqueueData(stuck.empty, "x", 1, NULL, 0, -1, 0));
            if (acltdtDequeue(stuck.empty, &got, 0) == 0) {
                OK(acltdtFreeBuf(got));
                stolen++;
            }
        }
        if (end_call(&c) == 0)
            stolen = 0;
        else
            ck_assert_int_eq(c.result, ACL_ERROR_RT_QUEUE_EMPTY);
        ck_assert_uint_ge(c.returned - begun, c.result == 0 ? 0 : 50000000);
        ck_assert_uint_lt(c.returned - begun, 2000000000);
    }
    free_stuck_queues();
}
END_TEST

START_TEST(destroy_wakes_who_sleeps)
{
    struct caller c[CALLS];

    make_stuck_queues();
    for (int which = 0; which < CALLS; which++)
        begin_call(&c[which], which, which % 2 ? -1 : 60000, (unsigned)which + 1);
    OK(acltdtDestroyQueue(stuck.full));
    OK(acltdtDestroyQueue(stuck.empty));
    for (int which = 0; which < CALLS; which++)
        ck_assert_int_eq(end_call(&c[which]), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    /* The buffer that could not be put is still ours. */
    ck_assert_uint_eq(buffer_value(stuck.buf), 3);
    OK(acltdtFreeBuf(stuck.buf));
}
END_TEST

/* A call that waited on a queue does not go on with another that has the same id. */
START_TEST(same_id_is_another_queue)
{
    struct caller c;
    uint32_t ids[4096], n = 0;

    if (!need_fds(__func__, 16384))
        return;
    make_stuck_queues();
    begin_call(&c, DEQUEUE, -1, 1);
    OK(acltdtDestroyQueue(stuck.empty));
    for (;;) {
        OK(create_with_depth(2, &ids[n]));
        OK(acltdtEnqueueData(ids[n], "x", 1, NULL, 0, 0, 0));
        if (ids[n++] == stuck.empty)
            break;
        ck_assert_uint_lt(n, 4096);
    }
    ck_assert_int_eq(end_call(&c), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    OK(acltdtFreeBuf(stuck.buf));
    OK(acltdtDestroyQueue(stuck.full));
    for (uint32_t i = 0; i < n; i++)
        OK(acltdtDestroyQueue(ids[i]));
}
END_TEST

/* Polling an empty queue a million times leaves one sentence, and the right one is on top. */
START_TEST(sentences_of_polling)
{
    uint32_t qid, other;
    const char *text;
    acltdtBuf got;

    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtCreateQueue(NULL, &other));
    aclGetRecentErrMsg();
    for (int i = 0; i < 1000000; i++)
        if (acltdtDequeue(qid, &got, 0) != ACL_ERROR_RT_QUEUE_EMPTY)
            ck_abort_msg("not empty");
    ck_assert_int_eq(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_QUEUE_EMPTY);
    ck_assert_int_ne(acltdtDequeue(other, &got, 0), 0);
    ck_assert_int_ne(acltdtDequeue(NO_ID, &got, 0), 0);
    ck_assert_int_ne(acltdtDequeue(qid, &got, 0), 0);
    text = aclGetRecentErrMsg();
    ck_assert_ptr_nonnull(text);
    {
        char expected[256];

        snprintf(expected, sizeof(expected),
                 "[207013] acltdtDequeue: queue %u is empty\n"
                 "[107000] acltdtDequeue: no queue has id 4096: ids are 0 to 4095\n"
                 "[207013] acltdtDequeue: queue %u is empty\n"
                 "[207013] acltdtDequeue: queue %u is empty",
                 qid, other, qid);
        ck_assert_str_eq(text, expected);
    }
    ck_assert_ptr_null(aclGetRecentErrMsg());
    OK(acltdtDestroyQueue(qid));
    OK(acltdtDestroyQueue(other));
}
END_TEST

/* --- messages left in queues --- */

START_TEST(destroy_frees_messages)
{
    acltdtBuf buf = buffer_of(4), copy;
    uint32_t qid;

    OK(acltdtCreateQueue(NULL, &qid));
    OK(acltdtCopyBufRef(buf, &copy));
    OK(acltdtEnqueue(qid, buf, 0));
    OK(acltdtEnqueue(qid, chain_of(1, 100), 0));
    OK(acltdtEnqueueData(qid, "x", 1, NULL, 0, 0, 0));
    OK(acltdtDestroyQueue(qid));
    ck_assert_uint_eq(buffer_value(copy), 4);
    await_buffers(2); /* the reference, and the data */
    OK(acltdtFreeBuf(copy));
}
END_TEST

/* --- threads --- */

#define PRODUCERS 3
#define CONSUMERS 3
#define EACH      3000

static uint32_t shared_queue;
static _Atomic uint64_t taken[PRODUCERS];

static void *produce_messages(void *arg)
{
    uint64_t who = (uintptr_t)arg;

    for (uint64_t i = 0; i < EACH; i++) {
        acltdtBuf buf = buffer_of(who << 32 | i);

        OK(acltdtEnqueue(shared_queue, buf, i % 3 ? -1 : 60000));
    }
    return NULL;
}

/* What one consumer gets of one producer comes in order. */
static void *consume_messages(void *arg)
{
    int64_t last[PRODUCERS];

    (void)arg;
    memset(last, -1, sizeof(last));
    for (;;) {
        uint64_t value = take_value(shared_queue, -1);
        uint32_t who = (uint32_t)(value >> 32);

        if (who == PRODUCERS)
            return NULL;
        ck_assert_int_gt((int64_t)(uint32_t)value, last[who]);
        last[who] = (uint32_t)value;
        atomic_fetch_add(&taken[who], 1);
    }
}

/*
 * Producers and consumers through one queue: every message comes, once. One producer does as
 * `first`, the others as `others`.
 */
static void through_one_queue(uint32_t depth, void *(*first)(void *), void *(*others)(void *))
{
    pthread_t producer[PRODUCERS], consumer[CONSUMERS];

    OK(create_with_depth(depth, &shared_queue));
    for (uintptr_t i = 0; i < CONSUMERS; i++)
        pthread_create(&consumer[i], NULL, consume_messages, NULL);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        pthread_create(&producer[i], NULL, i == 0 ? first : others, (void *)i);
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(producer[i], NULL);
    for (unsigned i = 0; i < CONSUMERS; i++)
        OK(acltdtEnqueue(shared_queue, buffer_of((uint64_t)PRODUCERS << 32), -1));
    for (unsigned i = 0; i < CONSUMERS; i++)
        pthread_join(consumer[i], NULL);
    for (unsigned i = 0; i < PRODUCERS; i++)
        ck_assert_uint_eq(taken[i], EACH);
    OK(acltdtDestroyQueue(shared_queue));
}

START_TEST(many_threads)
{
    through_one_queue(_i ? 64 : 2, produce_messages, produce_messages);
}
END_TEST

/*
 * Threads come and go from a full and an empty queue with short limits: no wake-up is lost,
 * whichever thread it was for.
 */
static void *produce_impatiently(void *arg)
{
    uint64_t who = (uintptr_t)arg;

    for (uint64_t i = 0; i < EACH; i++) {
        acltdtBuf buf = buffer_of(who << 32 | i);
        aclError error;

        while ((error = acltdtEnqueue(shared_queue, buf, i % 2)) == ACL_ERROR_RT_QUEUE_FULL)
            ;
        OK(error);
    }
    return NULL;
}

START_TEST(impatient_threads)
{
    through_one_queue(2, produce_messages, produce_impatiently);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue");
    TCase *t = suite_case(s, "one process", 60, set_up_test, tear_down_test);

    tcase_add_test(t, depths);
    tcase_add_test(t, order_with_wrap_around);
    tcase_add_test(t, many_queues);
    tcase_add_test(t, null_arguments);
    tcase_add_test(t, no_such_queue);
    tcase_add_test(t, grants_refused);
    tcase_add_test(t, attach_timeout_refused);
    tcase_add_test(t, handle_is_dead_after_enqueue);
    tcase_add_test(t, failed_enqueue_keeps_the_buffer);
    tcase_add_test(t, only_heads_are_enqueued);
    tcase_add_test(t, longest_chain);
    tcase_add_test(t, references);
    tcase_add_test(t, data_there_and_back);
    tcase_add_test(t, data_into_too_little_room);
    tcase_add_test(t, data_refused);
    tcase_add_test(t, data_and_buffers_mixed);
    tcase_add_test(t, data_in_device_memory);
    tcase_add_test(t, timeouts);
    tcase_add_test(t, no_limit);
    tcase_add_test(t, limit_is_a_total);
    tcase_add_test(t, destroy_wakes_who_sleeps);
    tcase_add_test(t, same_id_is_another_queue);
    tcase_add_test(t, sentences_of_polling);
    tcase_add_test(t, destroy_frees_messages);
    tcase_add_loop_test(t, many_threads, 0, 2);
    tcase_add_test(t, impatient_threads);
    return run_suite(s);
}
