#include "tests/hostile/own_all.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/actor.h"
#include "tests/common/harness.h"
#include "tests/common/second_user.h"

#define SIZE    (4u << 20)
#define COUNT   (SIZE / sizeof(int32_t))
#define HOUR_US 3600000000
#define WORKING (ARRAY_LENGTH(work))

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static aclrtContext context;
static void *memory[2];
static aclrtEvent gate;

/* --- tasks: each of these has a stream of its own --- */

static void wait_for_gate(aclrtStream s)
{
    aclrtEvent timed;
    uint64_t *word = memory[0];

    OK(aclrtStreamWaitEvent(s, gate));
    OK(aclrtCreateEventWithFlag(&timed, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtRecordEvent(timed, s));
    OK(aclnpudEventNotifyFd(timed, eventfd(0, EFD_CLOEXEC)));
    OK(aclrtMemsetAsync(memory[1], SIZE, 1, SIZE, s));
    OK(aclrtMemcpyAsync(memory[0], SIZE, memory[1], SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    OK(aclrtValueWrite(word + 8, 5, 0, s));
    OK(aclrtResetEvent(gate, s));
}

static void wait_for_time(aclrtStream s)
{
    OK(aclnpudLaunchDelay(HOUR_US, 0, s));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, s));
}

static void wait_for_value(aclrtStream s)
{
    OK(aclrtValueWait((uint64_t *)memory[0] + 4, 77, ACL_STREAM_WAIT_VALUE_EQ, s));
}

static void wait_for_notify(aclrtStream s)
{
    aclrtNotify notify;

    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtWaitAndResetNotify(notify, s, 0));
}

static void wait_for_count(aclrtStream s)
{
    aclrtCntNotifyRecordInfo add = {.mode = ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, .value = 1};
    aclrtCntNotifyWaitInfo wait = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 2};
    aclrtCntNotify count;

    OK(aclrtCntNotifyCreate(&count, 0));
    OK(aclrtCntNotifyRecord(count, s, &add));
    OK(aclrtCntNotifyWaitWithTimeout(count, s, &wait));
}

/* Records that are pending, and what waits for them. */
static void wait_for_record(aclrtStream s)
{
    aclrtEvent event;
    aclrtStream held;

    OK(aclrtCreateStream(&held));
    OK(aclrtStreamWaitEvent(held, gate));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    for (int i = 0; i < 4; i++) {
        OK(aclrtRecordEvent(event, held));
        OK(aclrtStreamWaitEvent(s, event));
    }
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* No thread runs it. */
static void wait_for_callback(aclrtStream s)
{
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
    OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_BLOCK, s));
    OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_NO_BLOCK, s));
}

/* Npud is likely to end in the middle of one of them. */
static void reduce_for_long(aclrtStream s)
{
    for (int i = 0; i < 100; i++)
        OK(aclrtReduceAsync(memory[1], memory[0], SIZE, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32,
                            s, NULL));
}

static void fail_task(aclrtStream s)
{
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, s));
    OK(aclnpudLaunchDelay(0, 0, s));
}

static void (*const work[])(aclrtStream s) = {
    wait_for_gate,   wait_for_time,     wait_for_value,  wait_for_notify, wait_for_count,
    wait_for_record, wait_for_callback, reduce_for_long, fail_task,
};

/* --- buffers --- */

static acltdtBuf buffer_new(void)
{
    acltdtBuf buf;

    OK(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtSetBufDataLen(buf, 64));
    return buf;
}

static acltdtBuf chain_new(void)
{
    acltdtBuf head = buffer_new();

    OK(acltdtAppendBufChain(head, buffer_new()));
    OK(acltdtAppendBufChain(head, buffer_new()));
    return head;
}

static uint32_t queue_new(uint32_t depth)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t queue;

    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    OK(acltdtCreateQueue(attr, &queue));
    OK(acltdtDestroyQueueAttr(attr));
    return queue;
}

static void bind_route(uint32_t from, uint32_t to)
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *one = acltdtCreateQueueRoute(from, to);

    OK(acltdtAddQueueRoute(list, one));
    OK(acltdtBindQueueRoutes(list));
    OK(acltdtDestroyQueueRoute(one));
    OK(acltdtDestroyQueueRouteList(list));
}

/* The route's destination is full: npud has messages of the source in hand. */
static void own_buffers(void)
{
    uint32_t queue = queue_new(8), source = queue_new(16), to = queue_new(2);
    acltdtBuf large, copy;

    for (int i = 0; i < 4; i++)
        OK(acltdtEnqueue(queue, chain_new(), 0));
    bind_route(source, to);
    for (int i = 0; i < 12; i++)
        OK(acltdtEnqueue(source, buffer_new(), 30000));
    for (int i = 0; i < 4; i++)
        buffer_new();
    OK(acltdtAllocBuf(3u << 20, ACL_TDT_NORMAL_MEM, &large));
    OK(acltdtCopyBufRef(large, &copy));
}

/* --- threads that sleep --- */

static uint32_t empty_queue;
static aclrtStream slow_stream;

static void *sleep_on_queue(void *arg)
{
    acltdtBuf buf;

    (void)arg;
    OK(aclrtSetCurrentContext(context));
    OK(acltdtDequeue(empty_queue, &buf, -1));
    return NULL;
}

static void *sleep_on_stream(void *arg)
{
    (void)arg;
    OK(aclrtSetCurrentContext(context));
    OK(aclrtSynchronizeStream(slow_stream));
    return NULL;
}

static void start_sleepers(void)
{
    pthread_t thread;

    empty_queue = queue_new(4);
    OK(aclrtCreateStream(&slow_stream));
    OK(aclnpudLaunchDelay(HOUR_US, 0, slow_stream));
    ck_assert_int_eq(pthread_create(&thread, NULL, sleep_on_queue, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, sleep_on_stream, NULL), 0);
}

/* --- */

static void own_streams(void)
{
    aclrtStream s;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    for (size_t i = 0; i < WORKING; i++) {
        OK(aclrtCreateStream(&s));
        work[i](s);
    }
}

int own_all_main(int fd, void *spoiled)
{
    aclrtEvent event;

    second_user_become();
    step_await(fd);
    session_open();
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtIpcOpenEventHandle(*(aclrtIpcEventHandle *)spoiled, &event));
    for (int i = 0; i < 2; i++)
        OK(aclrtMalloc(&memory[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    own_streams();
    own_buffers();
    start_sleepers();
    step_done(fd);
    step_await(fd);
    return 0;
}
