#include "waiting_calls.h"

#include <string.h>

#include "queue_kit.h"
#include "tests/common/nested.h"

#define ROOM 1100 /* tasks: more than a stream has room for */
#define KEY  OWED_KEY
#define UNIT (2u << 20)
#define EQ   ACL_STREAM_WAIT_VALUE_EQ

struct owed *owed;
struct owed_mine mine;
struct cell cells[ROWS];

/* --- the peer, which owes what the waiter waits for --- */

static void open_queues(void)
{
    owed->empty = create_queue(2);
    owed->full = create_queue(2);
    owed->closed = create_queue(2);
    OK(acltdtGrantQueue(owed->empty, owed->waiter, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    OK(acltdtGrantQueue(owed->full, owed->waiter, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    for (uint64_t i = 0; i < 2; i++)
        OK(acltdtEnqueue(owed->full, buffer_of(i), 0));
}

void owed_open(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&mine.held));
    OK(aclrtCreateEventExWithFlag(&mine.event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(mine.event, &owed->event));
    OK(aclrtCreateNotify(&mine.notify, 0));
    OK(aclrtNotifyGetExportKey(mine.notify, owed->notify, KEY,
                               ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    OK(aclrtMalloc((void **)&mine.theirs, UNIT, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(mine.theirs, 4096, 0, 4096));
    OK(aclrtIpcMemGetExportKey(mine.theirs, UNIT, owed->memory, KEY,
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    mine.gate = stream_hold(mine.held);
    OK(aclrtRecordEvent(mine.event, mine.held));
    OK(aclrtRecordNotify(mine.notify, mine.held));
    OK(aclrtValueWrite(mine.theirs, 1, 0, mine.held));
    open_queues();
}

void owed_release_stream(void)
{
    stream_let_go(mine.gate);
    (void)aclrtSynchronizeStream(mine.held); /* its wait may have been stopped */
}

void owed_release_queues(void)
{
    for (uint64_t i = 0; i < 2; i++) {
        OK(acltdtEnqueue(owed->empty, buffer_of(i), 0));
        take_value(owed->full, -1);
    }
    OK(acltdtGrantQueue(owed->closed, owed->waiter, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
}

void owed_destroy_queues(void)
{
    OK(acltdtDestroyQueue(owed->empty));
    OK(acltdtDestroyQueue(owed->full));
    OK(acltdtDestroyQueue(owed->closed));
}

/* --- the waiter: what each of its calls needs --- */

#define PREPARE(name) static void name(struct cell *c)

PREPARE(prepare_stream)
{
    OK(aclrtCreateStream(&c->stream));
}

PREPARE(prepare_held)
{
    prepare_stream(c);
    OK(aclrtStreamWaitEvent(c->stream, mine.gate));
}

PREPARE(prepare_on_second)
{
    OK(aclrtSetCurrentContext(mine.second));
    prepare_held(c);
    OK(aclrtSetCurrentContext(mine.primary));
}

PREPARE(prepare_context)
{
    OK(aclrtCreateContext(&c->context, 0));
    prepare_held(c);
    OK(aclrtSetCurrentContext(mine.primary));
}

PREPARE(prepare_record)
{
    prepare_held(c);
    OK(aclrtCreateEventExWithFlag(&c->event, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(c->event, c->stream));
}

/* A stream waits for what another one has to do. */
PREPARE(prepare_other)
{
    prepare_record(c);
    OK(aclrtCreateStream(&c->other));
    OK(aclrtStreamWaitEvent(c->other, c->event));
}

PREPARE(prepare_data)
{
    if (!c->stream)
        prepare_stream(c);
    OK(aclrtMalloc(&c->data, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
}

PREPARE(prepare_copy)
{
    prepare_held(c);
    prepare_data(c);
}

PREPARE(prepare_word)
{
    prepare_stream(c);
    OK(aclrtValueWait(&mine.own[0], 1, EQ, c->stream));
}

PREPARE(prepare_notify)
{
    prepare_stream(c);
    OK(aclrtWaitAndResetNotify(mine.notify, c->stream, 0));
}

PREPARE(prepare_count)
{
    aclrtCntNotifyWaitInfo info = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 1};

    prepare_stream(c);
    OK(aclrtCntNotifyCreate(&c->data, 0));
    OK(aclrtCntNotifyWaitWithTimeout(c->data, c->stream, &info));
}

static void await_let_go(void *arg)
{
    sem_wait(arg);
}

PREPARE(prepare_function)
{
    prepare_stream(c);
    OK(aclrtLaunchHostFunc(c->stream, await_let_go, &c->let_go));
}

/* A model that waits for a word: captured, or built by hand, which a call can wait for. */
PREPARE(prepare_launched)
{
    aclrtStream captured;

    prepare_stream(c);
    OK(aclrtCreateStream(&captured));
    OK(aclmdlRICaptureBegin(captured, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    OK(aclrtValueWait(&mine.own[1], 1, EQ, captured));
    OK(aclmdlRICaptureEnd(captured, &c->model));
    OK(aclmdlRIExecuteAsync(c->model, c->stream));
}

PREPARE(prepare_model)
{
    aclrtStream bound;

    OK(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
    OK(aclmdlRIBuildBegin(&c->model, 0));
    OK(aclmdlRIBindStream(c->model, bound, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclrtValueWait(&mine.own[1], 1, EQ, bound));
    OK(aclmdlRIEndTask(c->model, bound));
    OK(aclmdlRIBuildEnd(c->model, NULL));
}

PREPARE(prepare_their_word)
{
    prepare_stream(c);
    OK(aclrtValueWait(mine.theirs, 1, EQ, c->stream));
}

PREPARE(prepare_their_record)
{
    prepare_stream(c);
    OK(aclrtStreamWaitEvent(c->stream, mine.event));
}

PREPARE(prepare_their_notify)
{
    prepare_stream(c);
    OK(aclrtNotifyImportByKey(&c->data, owed->notify, 0));
    OK(aclrtWaitAndResetNotify(c->data, c->stream, 0));
}

static aclError send_tensor(struct cell *c, int32_t timeout)
{
    uint64_t number = 7;
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtDataItem *item =
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_UINT64, &number, sizeof(number));
    aclError error;

    OK(acltdtAddDataItem(dataset, item));
    error = acltdtSendTensor(c->channel, dataset, timeout);
    acltdtDestroyDataset(dataset);
    acltdtDestroyDataItem(item);
    return error;
}

static aclError receive_tensor(struct cell *c, int32_t timeout)
{
    acltdtDataset *dataset = acltdtCreateDataset();
    aclError error = acltdtReceiveTensor(c->channel, dataset, timeout);

    acltdtDestroyDataset(dataset);
    return error;
}

PREPARE(prepare_receive)
{
    c->channel = acltdtCreateChannelWithCapacity(0, "receives", 2);
}

PREPARE(prepare_send)
{
    c->channel = acltdtCreateChannelWithCapacity(0, "sends", 2);
    for (int i = 0; i < 2; i++)
        OK(send_tensor(c, 0));
}

/* --- the calls --- */

#define CALL(name, expression)                                                                     \
    static aclError name(struct cell *c)                                                           \
    {                                                                                              \
        (void)c;                                                                                   \
        return expression;                                                                         \
    }

CALL(sync_stream, aclrtSynchronizeStream(c->stream))
CALL(sync_stream_t, aclrtSynchronizeStreamWithTimeout(c->stream, owed->limit))
CALL(sync_other, aclrtSynchronizeStream(c->other))
CALL(sync_event, aclrtSynchronizeEvent(c->event))
CALL(sync_event_t, aclrtSynchronizeEventWithTimeout(c->event, owed->limit))
CALL(sync_record, aclrtSynchronizeEvent(mine.event))
CALL(sync_record_t, aclrtSynchronizeEventWithTimeout(mine.event, owed->limit))
CALL(execute, aclmdlRIExecute(c->model, -1))
CALL(destroy, aclrtDestroyStream(c->stream))
CALL(destroy_context, aclrtDestroyContext(c->context))
CALL(dequeue, acltdtDequeue(owed->empty, &c->data, -1))
CALL(dequeue_t, acltdtDequeue(owed->empty, &c->data, owed->limit))
CALL(enqueue, acltdtEnqueue(owed->full, buffer_of(9), -1))
CALL(enqueue_t, acltdtEnqueue(owed->full, buffer_of(9), owed->limit))
CALL(attach, acltdtAttachQueue(owed->closed, -1, &(uint32_t){0}))
CALL(receive, receive_tensor(c, -1))
CALL(send_one, send_tensor(c, -1))

static aclError sync_device(struct cell *c)
{
    (void)c;
    OK(aclrtSetCurrentContext(mine.second));
    return aclrtSynchronizeDevice();
}

static aclError sync_device_t(struct cell *c)
{
    (void)c;
    OK(aclrtSetCurrentContext(mine.second));
    return aclrtSynchronizeDeviceWithTimeout(owed->limit);
}

static aclError fill(struct cell *c)
{
    aclError error = 0;

    for (int i = 0; i < ROOM && error == 0; i++)
        error = aclnpudLaunchDelay(0, 0, c->stream);
    return error;
}

/* Of pageable memory, for which it waits for the stream. */
static aclError copy_behind(struct cell *c)
{
    static char bytes[64];

    return aclrtMemcpyAsync(c->data, sizeof(bytes), bytes, sizeof(bytes), ACL_MEMCPY_HOST_TO_DEVICE,
                            c->stream);
}

static aclError copy(struct cell *c)
{
    char bytes[64];

    return aclrtMemcpy(bytes, sizeof(bytes), c->data, sizeof(bytes), ACL_MEMCPY_DEVICE_TO_HOST);
}

static aclError sync_set(struct cell *c)
{
    OK(aclrtMemsetAsync(c->data, 64, 1, 64, c->stream));
    return aclrtSynchronizeStream(c->stream);
}

static aclError report(struct cell *c)
{
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), c->stream));
    return aclrtProcessReport(-1);
}

/* --- what a row waits for comes, where that is its own --- */

static void call_back(void *unused)
{
    (void)unused;
}

static void release_report(struct cell *c)
{
    OK(aclrtSetCurrentContext(mine.primary));
    if (aclrtLaunchCallback(call_back, NULL, ACL_CALLBACK_NO_BLOCK, c->stream) != 0)
        OK(aclrtUnSubscribeReport((uint64_t)c->thread, c->stream)); /* it takes none any more */
}

static void release_count(struct cell *c)
{
    aclrtCntNotifyRecordInfo info = {ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1};

    OK(aclrtSetCurrentContext(mine.keeper));
    OK(aclrtCntNotifyRecord(c->data, NULL, &info));
}

static void release_receive(struct cell *c)
{
    OK(send_tensor(c, 0));
}

static void release_send(struct cell *c)
{
    OK(receive_tensor(c, 0));
}

/* --- the calls, in order --- */

/* clang-format off */
const struct waiting_call waiting_calls[ROWS] = {
    [STREAM] = {"aclrtSynchronizeStream", prepare_held, sync_stream, NULL},
    [STREAM_T] = {"aclrtSynchronizeStreamWithTimeout", prepare_held, sync_stream_t, NULL},
    [OTHER] = {"aclrtSynchronizeStream", prepare_other, sync_other, NULL},
    [DEVICE_1] = {"aclrtSynchronizeDevice", prepare_on_second, sync_device, NULL},
    [DEVICE_1_T] = {"aclrtSynchronizeDeviceWithTimeout", prepare_on_second, sync_device_t, NULL},
    [EVENT] = {"aclrtSynchronizeEvent", prepare_record, sync_event, NULL},
    [EVENT_T] = {"aclrtSynchronizeEventWithTimeout", prepare_record, sync_event_t, NULL},
    [WORD] = {"aclrtSynchronizeStream", prepare_word, sync_stream, NULL},
    [NOTIFY] = {"aclrtSynchronizeStream", prepare_notify, sync_stream, NULL},
    [COUNT] = {"aclrtSynchronizeStream", prepare_count, sync_stream, release_count},
    [FUNCTION] = {"aclrtSynchronizeStream", prepare_function, sync_stream, NULL},
    [FILL] = {"aclnpudLaunchDelay", prepare_held, fill, NULL},
    [BEHIND] = {"aclrtMemcpyAsync", prepare_copy, copy_behind, NULL},
    [COPY] = {"aclrtMemcpy", prepare_data, copy, NULL},
    [FAR] = {"aclrtSynchronizeStream", prepare_data, sync_set, NULL},
    [MODEL] = {"aclmdlRIExecute", prepare_model, execute, NULL},
    [LAUNCHED] = {"aclrtSynchronizeStream", prepare_launched, sync_stream, NULL},
    [DESTROY] = {"aclrtDestroyStream", prepare_held, destroy, NULL},
    [CONTEXT] = {"aclrtDestroyContext", prepare_context, destroy_context, NULL},
    [REPORT] = {"aclrtProcessReport", prepare_stream, report, release_report},
    [RECEIVE] = {"acltdtReceiveTensor", prepare_receive, receive, release_receive},
    [SEND] = {"acltdtSendTensor", prepare_send, send_one, release_send},
    [RECORD] = {"aclrtSynchronizeEvent", NULL, sync_record, NULL},
    [RECORD_T] = {"aclrtSynchronizeEventWithTimeout", NULL, sync_record_t, NULL},
    [THEIR_RECORD] = {"aclrtSynchronizeStream", prepare_their_record, sync_stream, NULL},
    [THEIR_WORD] = {"aclrtSynchronizeStream", prepare_their_word, sync_stream, NULL},
    [THEIR_NOTIFY] = {"aclrtSynchronizeStream", prepare_their_notify, sync_stream, NULL},
    [TAKE] = {"acltdtDequeue", NULL, dequeue, NULL},
    [TAKE_T] = {"acltdtDequeue", NULL, dequeue_t, NULL},
    [PUT] = {"acltdtEnqueue", NULL, enqueue, NULL},
    [PUT_T] = {"acltdtEnqueue", NULL, enqueue_t, NULL},
    [ATTACH] = {"acltdtAttachQueue", NULL, attach, NULL},
};
/* clang-format on */

/* Where devices make the copies, a rule holds one; one that is away holds a set by itself. */
bool call_is_there(int row)
{
    return (row != COPY || npud_is_strict()) && (row != FAR || nested_is_on());
}

int calls_count(void)
{
    int n = 0;

    for (int i = 0; i < ROWS; i++)
        n += call_is_there(i);
    return n;
}

static void join_peer(void)
{
    uint32_t rights;

    OK(aclrtIpcOpenEventHandle(owed->event, &mine.event));
    OK(aclrtIpcMemImportByKey((void **)&mine.theirs, owed->memory, 0));
    OK(acltdtAttachQueue(owed->empty, -1, &rights));
    OK(acltdtAttachQueue(owed->full, -1, &rights));
}

void calls_prepare(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtGetCurrentContext(&mine.second));
    OK(aclrtCreateContext(&mine.keeper, 0));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&mine.primary));
    OK(aclrtCreateEventWithFlag(&mine.gate, ACL_EVENT_SYNC));
    OK(aclrtCreateNotify(&mine.notify, 0));
    OK(aclrtMalloc((void **)&mine.own, UNIT, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(mine.own, 4096, 0, 4096));
    join_peer();
    for (int i = 0; i < ROWS; i++) {
        cells[i].row = &waiting_calls[i];
        sem_init(&cells[i].let_go, 0, 0);
        if (waiting_calls[i].prepare && call_is_there(i))
            waiting_calls[i].prepare(&cells[i]);
    }
}

void calls_release(void)
{
    OK(aclrtSetCurrentContext(mine.second));
    (void)aclrtRecordEvent(mine.gate, NULL);
    OK(aclrtSetCurrentContext(mine.keeper));
    (void)aclrtValueWrite(&mine.own[0], 1, 0, NULL);
    (void)aclrtValueWrite(&mine.own[1], 1, 0, NULL);
    (void)aclrtValueWrite(mine.theirs, 1, 0, NULL);
    (void)aclrtRecordNotify(mine.notify, NULL);
    for (int i = 0; i < ROWS; i++)
        if (cells[i].begun && !atomic_load(&cells[i].over) && waiting_calls[i].release)
            waiting_calls[i].release(&cells[i]);
}
