#include "tests/common/alone.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/queue_steps.h"
#include "tests/common/workload.h"

#define SIZE    4096u
#define COUNT   1000u
#define MUCH    (2u << 20) /* some hundred microseconds of copying */
#define FAILURE ACL_ERROR_RT_AICORE_EXCEPTION
#define HOUR_US UINT64_C(3600000000)

static aclrtStream stream, other;

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

/*
 * The memory of a copy is freed when its first bytes have come; the others come all the same.
 * False: all had come before npud has answered, because this process did not run meanwhile.
 */
static bool free_in_work(size_t size)
{
    unsigned char *host, *dev;
    bool in_work;

    OK(aclrtMalloc((void **)&dev, size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost((void **)&host, size));
    OK(aclrtMemset(dev, 1, 0x5a, 1)); /* not all of it: that takes as long as a whole run */
    OK(aclrtMemset(dev + size - 1, 1, 0x5a, 1));
    host[0] = host[size - 1] = 0;
    OK(aclrtMemcpyAsync(host, size, dev, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    while (__atomic_load_n(host, __ATOMIC_ACQUIRE) != 0x5a)
        wait_a_moment();
    OK(aclrtFree(dev));
    in_work = __atomic_load_n(host + size - 1, __ATOMIC_ACQUIRE) != 0x5a;
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(host[size - 1], 0x5a);
    OK(aclrtFreeHost(host));
    return in_work;
}

/* Populating what is copied takes most of the time of all that is done here. */
static void do_free_in_work(void)
{
    if (!free_in_work(MUCH))
        free_in_work(8 * MUCH); /* a busy machine */
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

/* One level, which engines of two devices change in turns. */
static void do_two_devices(void)
{
    aclrtStream far;
    aclrtEvent e;

    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    for (int i = 0; i < 2; i++) {
        OK(aclrtStreamWaitEvent(far, e));
        OK(aclrtSetDevice(0));
        OK(aclrtRecordEvent(e, stream));
        OK(aclrtSetDevice(1));
        OK(aclrtResetEvent(e, far));
        OK(aclrtSynchronizeStream(far));
    }
    OK(aclrtSetDevice(0));
    OK(aclrtStreamWaitEvent(stream, e));
    OK(aclrtSetDevice(1));
    OK(aclrtRecordEvent(e, far));
    OK(aclrtSynchronizeStream(far));
    OK(aclrtDestroyStream(far));
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(0));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(e));
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
    OK(aclrtRecordNotify(own, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtNotifyBatchReset(&own, 1));
    OK(aclrtDestroyNotify(own));
    OK(aclrtCntNotifyCreate(&count, 0));
    OK(aclrtCntNotifyWaitWithTimeout(count, other, &wait));
    OK(aclrtCntNotifyRecord(count, stream, &add));
    OK(aclrtSynchronizeStream(stream)); /* so that the wait has begun, most likely */
    OK(aclrtCntNotifyRecord(count, stream, &add));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtCntNotifyReset(count, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtCntNotifyDestroy(count));
}

static _Atomic unsigned told;

/* Not those of waits for a process that ends. */
static void count_exception(aclrtExceptionInfo *info)
{
    told += aclrtGetErrorCodeFromExceptionInfo(info) == (uint32_t)FAILURE;
}

static void do_failures(void)
{
    aclrtEvent gate, passed;
    aclrtStream s;

    OK(aclrtCreateStream(&s));
    told = 0;
    OK(aclrtSetExceptionInfoCallback(count_exception));
    OK(aclnpudLaunchDelay(0, FAILURE, s));
    FAILS(FAILURE, aclrtSynchronizeStream(s));
    ck_assert_uint_eq(told, 1);
    OK(aclrtSetExceptionInfoCallback(NULL));
    OK(aclrtCreateEventWithFlag(&passed, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(passed, s));
    OK(aclrtDestroyStream(s));
    OK(aclrtCreateStream(&s));
    /* Of the stream before, in the same slot: positions go on. */
    OK(aclrtStreamWaitEvent(other, passed));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtDestroyEvent(passed));
    gate = stream_hold(s);
    OK(aclnpudLaunchDelay(0, 0, s));
    OK(aclrtStreamAbort(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyStream(s));
}

/* Tasks that are ended on request, and a context that stops at the first failure. */
static void do_stops(void)
{
    static _Alignas(4096) uint64_t page[4096 / sizeof(uint64_t)];
    aclrtContext first, second;
    aclrtStream s;
    void *word;

    OK(aclnpudLaunchDelay(HOUR_US, 0, other));
    OK(aclrtStreamStop(other));
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(other));
    /* The library's own work. */
    OK(aclrtHostRegister(page, sizeof(page), ACL_HOST_REGISTER_MAPPED, &word));
    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, other));
    OK(aclrtStreamStop(other));
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(other));
    OK(aclrtHostUnregister(page));
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 0));
    OK(aclrtCreateStream(&s));
    OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
    OK(aclnpudLaunchDelay(0, FAILURE, s));
    FAILS(FAILURE, aclrtSynchronizeStream(s));
    FAILS(FAILURE, aclrtSynchronizeStream(NULL));
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyContext(second));
    OK(aclrtSetCurrentContext(first));
}

/* The second delay fails, and no other. */
static void do_rules(void)
{
    npuctl_says("inject fail --kind delay --nth 2 --code 507015", 0, "");
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclnpudLaunchDelay(0, 0, stream));
    FAILS(FAILURE, aclrtSynchronizeStream(stream));
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    npuctl_says("inject clear", 0, "");
}

/* --- begun before the server is killed, and ended after it --- */

#define MESSAGES 5    /* more than a destination takes */
#define MANY     8192 /* the record of what is in its ring takes several slabs */

static struct {
    aclrtStream stream, other, calling;
    aclrtEvent gate, timed, ipc;
    aclrtNotify count;
    int fd;
    void *memory;
    uint32_t from, to[2], full;
    pthread_t thread; /* for the callback; it sleeps until `may_call` */
    _Atomic int over;
    pthread_mutex_t may_call;
} left = {.may_call = PTHREAD_MUTEX_INITIALIZER};

/* One source, two destinations that are full: the rest waits in their backlogs. */
static void leave_messages(void)
{
    left.from = create_queue(8);
    left.full = create_queue(MANY);
    for (int i = 0; i < 2; i++) {
        left.to[i] = create_queue(2);
        change_route(acltdtBindQueueRoutes, left.from, left.to[i]);
    }
    for (uint64_t i = 0; i < MESSAGES; i++)
        put_value(left.from, i);
    put_value(left.full, 0);
}

static void take_messages(void)
{
    for (int i = 0; i < 2; i++)
        for (uint64_t value = 0; value < MESSAGES; value++)
            take_value(left.to[i], value);
    for (int i = 0; i < 2; i++) {
        change_route(acltdtUnbindQueueRoutes, left.from, left.to[i]);
        OK(acltdtDestroyQueue(left.to[i]));
    }
    OK(acltdtDestroyQueue(left.from));
    OK(acltdtDestroyQueue(left.full)); /* with its message */
}

static void *call_later(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&left.may_call);
    pthread_mutex_unlock(&left.may_call);
    return serve_callbacks(&left.over);
}

/* npud hands it over, and its thread does not take it yet. */
static void leave_callback(void)
{
    aclrtEvent behind;

    called = 0;
    OK(aclrtCreateStream(&left.calling));
    OK(aclrtCreateEventWithFlag(&behind, ACL_EVENT_SYNC));
    pthread_mutex_lock(&left.may_call);
    ck_assert_int_eq(pthread_create(&left.thread, NULL, call_later, NULL), 0);
    OK(aclrtSubscribeReport((uint64_t)left.thread, left.calling));
    OK(aclrtLaunchCallback(count_call, NULL, ACL_CALLBACK_NO_BLOCK, left.calling));
    OK(aclrtRecordEvent(behind, left.calling));
    OK(aclrtSynchronizeEvent(behind));
    OK(aclrtDestroyEvent(behind));
}

static void take_callback(void)
{
    pthread_mutex_unlock(&left.may_call);
    OK(aclrtSynchronizeStream(left.calling));
    EVENTUALLY(called == 1, "the callback is not called");
    OK(aclrtUnSubscribeReport((uint64_t)left.thread, left.calling));
    left.over = 1;
    pthread_join(left.thread, NULL);
    ck_assert_uint_eq(called, 1);
    OK(aclrtDestroyStream(left.calling));
}

void leave_work(void)
{
    aclrtCntNotifyWaitInfo wait = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 1};

    OK(aclrtCreateStream(&left.stream));
    OK(aclrtCreateStream(&left.other));
    OK(aclrtMalloc(&left.memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(left.memory, SIZE, 0, SIZE));
    OK(aclrtCreateEventWithFlag(&left.timed, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&left.ipc, ACL_EVENT_IPC));
    OK(aclrtCntNotifyCreate(&left.count, 0));
    left.gate = stream_hold(left.stream);
    OK(aclrtRecordEvent(left.ipc, left.stream));
    OK(aclrtMemsetAsync(left.memory, SIZE, 7, SIZE, left.stream));
    OK(aclrtRecordEvent(left.timed, left.stream));
    OK(aclrtStreamWaitEvent(left.stream, left.ipc));
    left.fd = eventfd(0, EFD_CLOEXEC);
    OK(aclnpudEventNotifyFd(left.timed, left.fd));
    OK(aclrtCntNotifyWaitWithTimeout(left.count, left.other, &wait));
    /* Both are freed when the stream has passed them. */
    OK(aclrtDestroyEvent(left.ipc));
    OK(aclrtDestroyEvent(left.timed));
    leave_messages();
    leave_callback();
}

void end_work(void)
{
    aclrtCntNotifyRecordInfo set = {.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, .value = 1};
    unsigned char byte = 0;
    uint64_t n;

    take_callback();
    take_messages();
    stream_let_go(left.gate);
    ck_assert_int_eq(read(left.fd, &n, sizeof(n)), sizeof(n));
    close(left.fd);
    OK(aclrtCntNotifyRecord(left.count, left.stream, &set));
    OK(aclrtSynchronizeStream(left.stream));
    OK(aclrtSynchronizeStream(left.other));
    OK(aclrtMemcpy(&byte, 1, left.memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_int_eq(byte, 7);
    OK(aclrtCntNotifyDestroy(left.count));
    OK(aclrtDestroyEvent(left.gate));
    OK(aclrtFree(left.memory));
    OK(aclrtDestroyStream(left.stream));
    OK(aclrtDestroyStream(left.other));
}

#define GRAPH_BYTES  4096
#define GRAPH_ROUNDS 3

static void do_graph(void)
{
    aclmdlRI graph;
    void *device, *host;

    OK(aclrtMalloc(&device, GRAPH_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&host, GRAPH_BYTES));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    for (int i = 1; i <= 3; i++)
        OK(aclrtMemsetAsync(device, GRAPH_BYTES, i, GRAPH_BYTES, stream));
    OK(aclrtMemcpyAsync(host, GRAPH_BYTES, device, GRAPH_BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclmdlRICaptureEnd(stream, &graph));
    for (int round = 0; round < GRAPH_ROUNDS; round++) {
        memset(host, 0, GRAPH_BYTES);
        OK(aclmdlRIExecuteAsync(graph, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(((unsigned char *)host)[GRAPH_BYTES - 1], 3);
    }
    OK(aclmdlRIDestroy(graph));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

/* --- */

void do_alone(aclrtStream one, aclrtStream two)
{
    stream = one;
    other = two;
    do_copies();
    do_free_in_work();
    do_values();
    do_events();
    do_two_devices();
    do_callbacks();
    do_notifies();
    do_failures();
    do_stops();
    do_graph();
    if (workload->injects)
        do_rules();
}
