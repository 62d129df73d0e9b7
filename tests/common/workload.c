#include "tests/common/workload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/actor.h"
#include "tests/common/harness.h"

#define SIZE    4096u
#define COUNT   1000u
#define FAILURE ACL_ERROR_RT_AICORE_EXCEPTION

struct workload *workload;

static aclrtStream stream, other;
static aclrtEvent ipc, theirs;
static aclrtNotify notify;

static void begin(void)
{
    streams_open(&stream, &other);
}

/* --- within one process --- */

static void do_copies(void)
{
    static unsigned char host[SIZE], back[SIZE];
    int32_t ones[COUNT], sum[COUNT];
    void *dev, *dev2;

    for (unsigned i = 0; i < SIZE; i++)
        host[i] = (unsigned char)(i * 7);
    for (unsigned i = 0; i < COUNT; i++)
        ones[i] = (int32_t)i;
    OK(aclrtMalloc(&dev, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&dev2, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(dev, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpyAsync(dev2, SIZE, dev, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(back, SIZE, dev2, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_int_eq(memcmp(host, back, SIZE), 0);
    /* Twice the same, and not three times. */
    OK(aclrtMemcpy(dev, SIZE, ones, sizeof(ones), ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemsetAsync(dev2, SIZE, 0, SIZE, stream));
    for (int i = 0; i < 2; i++)
        OK(aclrtReduceAsync(dev2, dev, sizeof(ones), ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32,
                            stream, NULL));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(sum, sizeof(sum), dev2, sizeof(sum), ACL_MEMCPY_DEVICE_TO_HOST));
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert_int_eq(sum[i], (int32_t)(2 * i));
    OK(aclrtFree(dev2));
    OK(aclrtFree(dev));
}

static void do_values(void)
{
    uint64_t *word;

    OK(aclrtMalloc((void **)&word, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(word, 64, 0, 64));
    OK(aclrtValueWait(word, 5, ACL_STREAM_WAIT_VALUE_EQ, other));
    OK(aclrtValueWrite(word, 5, 0, stream));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtFree(word));
}

static void do_events(void)
{
    aclrtEvent a, b, gate;
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t n;
    float ms;

    OK(aclrtCreateEventWithFlag(&a, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&b, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(a, stream));
    OK(aclrtStreamWaitEvent(other, a));
    OK(aclnpudLaunchDelay(2000, 0, other));
    OK(aclrtRecordEvent(b, other));
    OK(aclnpudEventNotifyFd(b, fd));
    stream_let_go(gate);
    OK(aclrtSynchronizeEvent(b));
    ck_assert_int_eq(read(fd, &n, sizeof(n)), sizeof(n));
    close(fd);
    OK(aclrtEventElapsedTime(&ms, a, b));
    ck_assert(ms >= 1.9F);
    OK(aclrtResetEvent(a, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(b));
    OK(aclrtDestroyEvent(a));
}

static _Atomic unsigned called;

static void count_call(void *arg)
{
    (void)arg;
    called++;
}

static void *serve_callbacks(void *arg)
{
    const _Atomic int *over = arg;

    while (!atomic_load(over))
        aclrtProcessReport(10);
    return NULL;
}

static void do_callbacks(void)
{
    static _Atomic int over;
    pthread_t thread;

    called = 0;
    over = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, serve_callbacks, (void *)&over), 0);
    OK(aclrtSubscribeReport((uint64_t)thread, stream));
    for (int i = 0; i < 3; i++)
        OK(aclrtLaunchCallback(count_call, NULL, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(called, 3);
    OK(aclrtUnSubscribeReport((uint64_t)thread, stream));
    over = 1;
    pthread_join(thread, NULL);
}

static void do_notifies(void)
{
    aclrtCntNotifyRecordInfo add = {.mode = ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, .value = 1};
    aclrtCntNotifyWaitInfo wait = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 2};
    aclrtCntNotify count;
    aclrtNotify own;

    OK(aclrtCreateNotify(&own, 0));
    OK(aclrtWaitAndResetNotify(own, other, 0));
    OK(aclrtRecordNotify(own, stream));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtDestroyNotify(own));
    OK(aclrtCntNotifyCreate(&count, 0));
    OK(aclrtCntNotifyWaitWithTimeout(count, other, &wait));
    OK(aclrtCntNotifyRecord(count, stream, &add));
    OK(aclrtCntNotifyRecord(count, stream, &add));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtCntNotifyReset(count, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtCntNotifyDestroy(count));
}

static _Atomic unsigned told;

static void count_exception(aclrtExceptionInfo *info)
{
    (void)info;
    told++;
}

static void do_failures(void)
{
    aclrtStream s;
    aclrtEvent gate;

    OK(aclrtCreateStream(&s));
    told = 0;
    OK(aclrtSetExceptionInfoCallback(count_exception));
    OK(aclnpudLaunchDelay(0, FAILURE, s));
    FAILS(FAILURE, aclrtSynchronizeStream(s));
    ck_assert_uint_eq(told, 1);
    OK(aclrtSetExceptionInfoCallback(NULL));
    OK(aclrtDestroyStream(s));
    OK(aclrtCreateStream(&s));
    gate = stream_hold(s);
    OK(aclnpudLaunchDelay(0, 0, s));
    OK(aclrtStreamAbort(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyStream(s));
}

/* --- between the two --- */

static acltdtBuf buffer_of(uint64_t value)
{
    acltdtBuf buf;
    void *data;
    size_t size;

    OK(acltdtAllocBuf(sizeof(value), ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(data, &value, sizeof(value));
    OK(acltdtSetBufDataLen(buf, sizeof(value)));
    return buf;
}

static void take_value(uint32_t queue, uint64_t value)
{
    acltdtBuf buf;
    uint64_t got;
    void *data;
    size_t size;

    OK(acltdtDequeue(queue, &buf, 30000));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(&got, data, sizeof(got));
    ck_assert_uint_eq(got, value);
    OK(acltdtFreeBuf(buf));
}

static uint32_t create_queue(void)
{
    uint32_t depth = 8, queue;
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();

    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    OK(acltdtCreateQueue(attr, &queue));
    OK(acltdtDestroyQueueAttr(attr));
    return queue;
}

static void route(aclError (*change)(acltdtQueueRouteList *list), uint32_t from, uint32_t to)
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *one = acltdtCreateQueueRoute(from, to);

    OK(acltdtAddQueueRoute(list, one));
    OK(change(list));
    OK(acltdtDestroyQueueRoute(one));
    OK(acltdtDestroyQueueRouteList(list));
}

#define GET ACL_TDT_QUEUE_PERMISSION_DEQUEUE

static void share_from_first(void)
{
    int32_t pid = workload->second;

    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, &workload->ipc[0]));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtNotifyGetExportKey(notify, workload->key, sizeof(workload->key), 0));
    OK(aclrtNotifySetImportPid(notify, &pid, 1));
    for (int i = 0; i < 3; i++)
        workload->queue[i] = create_queue();
    OK(acltdtGrantQueue(workload->queue[0], pid, GET, 0));
    OK(acltdtGrantQueue(workload->queue[2], pid, GET, 0));
    route(acltdtBindQueueRoutes, workload->queue[1], workload->queue[2]);
}

static void share_from_second(void)
{
    uint32_t rights;

    OK(aclrtIpcOpenEventHandle(workload->ipc[0], &theirs));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, &workload->ipc[1]));
    OK(aclrtNotifyImportByKey(&notify, workload->key, 0));
    OK(acltdtAttachQueue(workload->queue[0], 30000, &rights));
    OK(acltdtAttachQueue(workload->queue[2], 30000, &rights));
    /* Goes on when the first process does its part. */
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
}

static void give(void)
{
    for (uint64_t i = 0; i < 4; i++) {
        OK(acltdtEnqueue(workload->queue[0], buffer_of(i), 30000));
        OK(acltdtEnqueue(workload->queue[1], buffer_of(100 + i), 30000));
    }
    OK(aclrtIpcOpenEventHandle(workload->ipc[1], &theirs));
    OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtSynchronizeStream(stream));
}

static void take(void)
{
    for (uint64_t i = 0; i < 4; i++) {
        take_value(workload->queue[0], i);
        take_value(workload->queue[2], 100 + i);
    }
    OK(aclrtStreamWaitEvent(other, theirs));
    OK(aclrtRecordEvent(ipc, other));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream)); /* the notify has come */
}

static void do_alone(void)
{
    do_copies();
    do_values();
    do_events();
    do_callbacks();
    do_notifies();
    do_failures();
}

static void end_first(void)
{
    OK(aclrtSynchronizeEvent(theirs));
    route(acltdtUnbindQueueRoutes, workload->queue[1], workload->queue[2]);
    for (int i = 0; i < 3; i++)
        OK(acltdtDestroyQueue(workload->queue[i]));
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyEvent(theirs));
    OK(aclrtDestroyEvent(ipc));
}

static void end_second(void)
{
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyEvent(theirs));
    OK(aclrtDestroyEvent(ipc));
}

/* --- */

static void end(void)
{
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    session_close();
}

static int run(int fd, void (*const step[])(void))
{
    for (int i = 0; i < WORKLOAD_STEPS; i++) {
        step_await(fd);
        step[i]();
        step_done(fd);
    }
    return 0;
}

int first_main(int fd, void *arg)
{
    static void (*const steps[])(void) = {begin, share_from_first, give, do_alone, end_first, end};

    (void)arg;
    return run(fd, steps);
}

int second_main(int fd, void *arg)
{
    static void (*const steps[])(void) = {begin,    share_from_second, take,
                                          do_alone, end_second,        end};

    (void)arg;
    return run(fd, steps);
}
