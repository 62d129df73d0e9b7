/*
 * `make bench-count`: each hot call some times, between two marks for callgrind, which counts its
 * instructions and system calls (mk/bench-count.py). What is counted must not depend on how fast
 * npud is: calls are complete when they return, or queue behind a wait that holds them all. The
 * shortest of some batches counts: in the others a thread of the library held a lock, for one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_npud_kernel.h"
#include "acl/acl_tdt_queue.h"

#define COUNTED 60
#define BATCHES 5
#define WARM_UP 20 /* tables have grown, caches of the library are filled */
#define SMALL   64
#define BIG     4096

static struct {
    aclrtStream open, held; /* idle; waits for the gate */
    aclrtEvent gate, sync, timed, ipc, pending;
    aclrtNotify notify;
    aclrtContext context;
    void *device, *other, *word;
    char host[BIG];
    uint32_t queue;
    acltdtBuf buf;
    aclmdlRI graph;
} on;

static void check(aclError error, const char *call)
{
    if (error == ACL_SUCCESS)
        return;
    fprintf(stderr, "count: %s: %d: %s\n", call, error, aclGetRecentErrMsg());
    exit(1);
}
#define OK(call) check((call), #call)

/* --- calls that are complete when they return --- */

static void get_device(void)
{
    int32_t device;

    OK(aclrtGetDevice(&device));
}

static void set_context(void)
{
    OK(aclrtSetCurrentContext(on.context));
}

static void query_sync(void)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(on.sync, &status));
}

static void query_ipc(void)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(on.ipc, &status));
}

static void query_stream(void)
{
    aclrtStreamStatus status;

    OK(aclrtStreamQuery(on.open, &status));
}

static void synchronize_stream(void)
{
    OK(aclrtSynchronizeStream(on.open));
}

static void synchronize_event(void)
{
    OK(aclrtSynchronizeEvent(on.sync));
}

static void record_sync(void)
{
    OK(aclrtRecordEvent(on.sync, on.open));
}

static void record_timed(void)
{
    OK(aclrtRecordEvent(on.timed, on.open));
}

static void record_ipc(void)
{
    OK(aclrtRecordEvent(on.ipc, on.open));
}

static void wait_sync(void)
{
    OK(aclrtStreamWaitEvent(on.open, on.sync));
}

static void wait_ipc(void)
{
    OK(aclrtStreamWaitEvent(on.open, on.ipc));
}

static void copy_small(void)
{
    OK(aclrtMemcpy(on.device, SMALL, on.host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void copy_back(void)
{
    OK(aclrtMemcpy(on.host, SMALL, on.device, SMALL, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void copy_between(void)
{
    OK(aclrtMemcpy(on.other, SMALL, on.device, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE));
}

static void set_small(void)
{
    OK(aclrtMemset(on.device, SMALL, 1, SMALL));
}

/* --- tasks that queue --- */

static void launch_held(void)
{
    OK(aclnpudLaunchDelay(0, ACL_SUCCESS, on.held));
}

static void record_sync_held(void)
{
    OK(aclrtRecordEvent(on.sync, on.held));
}

static void record_ipc_held(void)
{
    OK(aclrtRecordEvent(on.ipc, on.held));
}

static void wait_pending_held(void)
{
    OK(aclrtStreamWaitEvent(on.held, on.pending));
}

static void record_notify_held(void)
{
    OK(aclrtRecordNotify(on.notify, on.held));
}

static void write_value_held(void)
{
    OK(aclrtValueWrite(on.word, 1, 0, on.held));
}

static void set_held(void)
{
    OK(aclrtMemsetAsync(on.device, SMALL, 1, SMALL, on.held));
}

static void copy_held(void)
{
    OK(aclrtMemcpyAsync(on.other, SMALL, on.device, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, on.held));
}

static void do_nothing(const void *function, const void *args)
{
    (void)function;
    (void)args;
}

static void kernel_held(void)
{
    const aclnpudKernel kernel = {
        .size = sizeof(kernel), .name = "count", .function = &kernel, .call = do_nothing};

    OK(aclnpudLaunchKernel(&kernel, 1, &on.word, sizeof(on.word), on.held));
}

static void graph_held(void)
{
    OK(aclmdlRIExecuteAsync(on.graph, on.held));
}

/* --- buffers and queues --- */

static void buffer_small(void)
{
    acltdtBuf buf;

    OK(acltdtAllocBuf(SMALL, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtFreeBuf(buf));
}

static void buffer_page(void)
{
    acltdtBuf buf;

    OK(acltdtAllocBuf(BIG, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtFreeBuf(buf));
}

static void buffer_data(void)
{
    void *data;
    size_t size;

    OK(acltdtGetBufData(on.buf, &data, &size));
}

static void buffer_reference(void)
{
    acltdtBuf copy;

    OK(acltdtCopyBufRef(on.buf, &copy));
    OK(acltdtFreeBuf(copy));
}

static void pass_buffer(void)
{
    OK(acltdtEnqueue(on.queue, on.buf, 0));
    OK(acltdtDequeue(on.queue, &on.buf, 0));
}

static void poll_empty(void)
{
    acltdtBuf buf;

    if (acltdtDequeue(on.queue, &buf, 0) != ACL_ERROR_RT_QUEUE_EMPTY)
        abort();
}

static void pass_bytes(void)
{
    size_t got;

    OK(acltdtEnqueueData(on.queue, on.host, SMALL, NULL, 0, 0, 0));
    OK(acltdtDequeueData(on.queue, on.host, SMALL, &got, NULL, 0, 0));
}

/* --- requests --- */

static void stream_and_back(void)
{
    aclrtStream stream;

    OK(aclrtCreateStream(&stream));
    OK(aclrtDestroyStream(stream));
}

static void event_and_back(void)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclrtDestroyEvent(event));
}

static void memory_and_back(void)
{
    void *memory;

    OK(aclrtMalloc(&memory, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtFree(memory));
}

static const struct row {
    const char *name;
    void (*call)(void);
} rows[] = {
    {"aclrtGetDevice", get_device},
    {"aclrtSetCurrentContext", set_context},
    {"aclrtQueryEventStatus", query_sync},
    {"aclrtQueryEventStatus, IPC", query_ipc},
    {"aclrtStreamQuery, idle", query_stream},
    {"aclrtSynchronizeStream, idle", synchronize_stream},
    {"aclrtSynchronizeEvent, complete", synchronize_event},
    {"aclrtRecordEvent, idle stream", record_sync},
    {"aclrtRecordEvent with time, idle stream", record_timed},
    {"aclrtRecordEvent of IPC, idle stream", record_ipc},
    {"aclrtStreamWaitEvent, complete", wait_sync},
    {"aclrtStreamWaitEvent of IPC, complete", wait_ipc},
    {"aclrtMemcpy of 64 bytes to the device", copy_small},
    {"aclrtMemcpy of 64 bytes to the host", copy_back},
    {"aclrtMemcpy of 64 bytes on the device", copy_between},
    {"aclrtMemset of 64 bytes", set_small},
    {"aclnpudLaunchDelay, queued", launch_held},
    {"aclrtRecordEvent, queued", record_sync_held},
    {"aclrtRecordEvent of IPC, queued", record_ipc_held},
    {"aclrtStreamWaitEvent, pending", wait_pending_held},
    {"aclrtRecordNotify, queued", record_notify_held},
    {"aclrtValueWrite, queued", write_value_held},
    {"aclrtMemsetAsync of 64 bytes, queued", set_held},
    {"aclrtMemcpyAsync of 64 bytes, queued", copy_held},
    {"aclnpudLaunchKernel, queued", kernel_held},
    {"aclmdlRIExecuteAsync, queued", graph_held},
    {"acltdtAllocBuf and acltdtFreeBuf, 64 bytes", buffer_small},
    {"acltdtAllocBuf and acltdtFreeBuf, 4 KiB", buffer_page},
    {"acltdtGetBufData", buffer_data},
    {"acltdtCopyBufRef and acltdtFreeBuf", buffer_reference},
    {"acltdtEnqueue and acltdtDequeue", pass_buffer},
    {"acltdtDequeue of an empty queue", poll_empty},
    {"acltdtEnqueueData and acltdtDequeueData, 64 bytes", pass_bytes},
    {"aclrtCreateStream and aclrtDestroyStream", stream_and_back},
    {"aclrtCreateEventExWithFlag and aclrtDestroyEvent", event_and_back},
    {"aclrtMalloc and aclrtFree, 4 KiB", memory_and_back},
};

static void queue_new(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t depth = 8;

    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    OK(acltdtCreateQueue(attr, &on.queue));
    OK(acltdtDestroyQueueAttr(attr));
}

static void graph_new(void)
{
    OK(aclmdlRICaptureBegin(on.open, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtMemsetAsync(on.device, SMALL, 1, SMALL, on.open));
    OK(aclmdlRICaptureEnd(on.open, &on.graph));
}

/* What the next row queries and waits for is complete. */
static void record_all(void)
{
    OK(aclrtRecordEvent(on.sync, on.open));
    OK(aclrtRecordEvent(on.ipc, on.open));
    OK(aclrtSynchronizeStream(on.open));
}

static void begin(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&on.context));
    OK(aclrtCreateStream(&on.open));
    OK(aclrtCreateStream(&on.held));
    OK(aclrtCreateEventWithFlag(&on.gate, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&on.sync, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&on.timed, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventExWithFlag(&on.ipc, ACL_EVENT_IPC));
    OK(aclrtCreateEventExWithFlag(&on.pending, ACL_EVENT_SYNC));
    OK(aclrtCreateNotify(&on.notify, 0));
    OK(aclrtMalloc(&on.device, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&on.other, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&on.word, SMALL, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(acltdtAllocBuf(SMALL, ACL_TDT_NORMAL_MEM, &on.buf));
    queue_new();
    graph_new();
    kernel_held(); /* starts the threads that run kernels */
    OK(aclrtSynchronizeStream(on.held));
    record_all();
}

/* The held stream waits before each row, and is let go after it. */
static void hold(void)
{
    OK(aclrtStreamWaitEvent(on.held, on.gate));
    OK(aclrtResetEvent(on.gate, on.held));
    OK(aclrtRecordEvent(on.pending, on.held));
}

static void release(void)
{
    OK(aclrtRecordEvent(on.gate, on.open));
    OK(aclrtSynchronizeStream(on.held));
    record_all();
}

static void count(const struct row *row)
{
    hold();
    for (unsigned i = 0; i < WARM_UP; i++)
        row->call();
    CALLGRIND_DUMP_STATS_AT(""); /* to zero them would leave the system calls of a thread */
    for (unsigned n = 0; n < BATCHES; n++) {
        for (unsigned i = 0; i < COUNTED; i++)
            row->call();
        CALLGRIND_DUMP_STATS_AT(row->name);
    }
    release();
}

int main(void)
{
    begin();
    CALLGRIND_START_INSTRUMENTATION;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        count(&rows[i]);
    CALLGRIND_STOP_INSTRUMENTATION;
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
