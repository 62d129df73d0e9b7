/* Models that are built by hand: streams bound to them, switches between streams, and labels. */
#include "expect.h"

#include <acl/acl_npud.h>

#define WORDS 16u

static int64_t *words; /* device memory */

static void set(unsigned i, int64_t value)
{
    CALL(aclrtMemcpy(&words[i], sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE));
}

static int64_t get(unsigned i)
{
    int64_t value;

    CALL(aclrtMemcpy(&value, sizeof(value), &words[i], sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

static aclrtStream persistent(void)
{
    aclrtStream stream;

    CALL(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
    return stream;
}

/* word i += word k, as 32 bits each */
static void add(unsigned i, unsigned k, aclrtStream stream)
{
    CALL(aclrtReduceAsync(&words[i], &words[k], sizeof(int64_t), ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                          ACL_INT32, stream, NULL));
}

static void one_stream(void)
{
    aclrtStream stream = persistent(), plain, caller;
    aclrtEvent event;
    aclmdlRI model, captured;
    uint32_t id;

    CALL(aclrtCreateStream(&plain));
    CALL(aclrtCreateStream(&caller));
    CALL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIBuildBegin(&model, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIBuildBegin(NULL, 0));
    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIGetId(model, &id));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclmdlRIBuildEnd(model, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIBindStream(model, plain, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIBindStream(model, stream, 5));
    CALL(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_HEAD));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclmdlRIBindStream(model, stream, 0));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclmdlRICaptureBegin(stream, 0));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(event, stream));
    set(0, 0);
    set(1, 5);
    add(0, 1, stream);
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(get(0) == 0);
    FAILS(ACL_ERROR_RT_MODEL_EXECUTE, aclmdlRIBuildEnd(model, NULL));
    FAILS(ACL_ERROR_RT_MODEL_EXECUTE, aclmdlRIExecute(model, -1));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRIEndTask(model, plain));
    CALL(aclmdlRIEndTask(model, stream));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRIEndTask(model, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIBuildEnd(model, &id));
    CALL(aclmdlRIBuildEnd(model, NULL));
    CALL(aclmdlRIExecute(model, -1));
    EXPECT(get(0) == 5);
    CALL(aclmdlRIExecute(model, 10000));
    EXPECT(get(0) == 10);
    CALL(aclmdlRIExecuteAsync(model, caller));
    CALL(aclrtSynchronizeStream(caller));
    EXPECT(get(0) == 15);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIExecute(model, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIExecuteAsync(model, stream));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclmdlRIUnbindStream(model, plain));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclrtMemsetAsync(words, 8, 0, 8, stream));
    CALL(aclmdlRIUnbindStream(model, stream));
    CALL(aclmdlRIDestroy(model));
    CALL(aclmdlRICaptureBegin(plain, 0));
    CALL(aclmdlRICaptureEnd(plain, &captured));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIExecute(captured, -1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIBindStream(captured, stream, 0));
    CALL(aclmdlRIDestroy(captured));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtDestroyStream(plain));
    CALL(aclrtDestroyStream(caller));
}

/* while (words[0] < words[1]) words[0] += words[2]; then words[3] += words[2] */
static void loop_of_streams(void)
{
    aclrtStream test = persistent(), body = persistent();
    aclmdlRI model;

    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, test, ACL_MODEL_STREAM_FLAG_HEAD));
    CALL(aclmdlRIBindStream(model, body, ACL_MODEL_STREAM_FLAG_DEFAULT));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtSwitchStream(&words[0], ACL_RT_LESS, &words[1],
                                                     ACL_RT_SWITCH_INT64, body, test, test));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtSwitchStream(&words[0], 6, &words[1], ACL_RT_SWITCH_INT64, body, NULL, test));
    CALL(aclrtSwitchStream(&words[0], ACL_RT_LESS, &words[1], ACL_RT_SWITCH_INT64, body, NULL,
                           test));
    add(3, 2, test);
    CALL(aclmdlRIEndTask(model, test));
    add(0, 2, body);
    CALL(aclrtActiveStream(test, body));
    CALL(aclmdlRIBuildEnd(model, NULL));
    set(0, 0);
    set(1, 10);
    set(2, 3);
    set(3, 0);
    CALL(aclmdlRIExecute(model, -1));
    EXPECT(get(0) == 12 && get(3) == 3);
    CALL(aclmdlRIExecute(model, -1));
    EXPECT(get(0) == 12 && get(3) == 6);
    CALL(aclmdlRIDestroy(model)); /* releases its streams */
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclrtActiveStream(test, body));
    CALL(aclrtDestroyStream(test));
    CALL(aclrtDestroyStream(body));
}

/* A stream that is started in the middle: its starter goes on behind it. */
static void started(void)
{
    aclrtStream first = persistent(), second = persistent(), third = persistent();
    aclmdlRI model;

    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
    CALL(aclmdlRIBindStream(model, second, ACL_MODEL_STREAM_FLAG_DEFAULT));
    CALL(aclmdlRIBindStream(model, third, ACL_MODEL_STREAM_FLAG_HEAD));
    add(0, 1, first);
    CALL(aclrtActiveStream(second, first));
    add(0, 1, first);
    CALL(aclmdlRIEndTask(model, first));
    add(3, 2, second);
    add(4, 1, third);
    CALL(aclmdlRIBuildEnd(model, NULL));
    for (unsigned i = 0; i < 5; i++)
        set(i, i);
    CALL(aclmdlRIExecute(model, -1));
    EXPECT(get(0) == 2 && get(3) == 5 && get(4) == 5);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(first));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtDestroyStream(third));
}

static void labels(void)
{
    aclrtStream stream = persistent();
    aclrtLabel label[3], lone;
    aclrtLabelList list, other;
    aclmdlRI model;

    for (int i = 0; i < 3; i++)
        CALL(aclrtCreateLabel(&label[i]));
    CALL(aclrtCreateLabel(&lone));
    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_HEAD));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSetLabel(label[0], stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateLabelList(label, 0, &list));
    CALL(aclrtCreateLabelList(label, 3, &list));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtCreateLabelList(label, 1, &other));
    CALL(aclrtSwitchLabelByIndex(&words[0], 3, list, stream));
    /* 0: adds 1 and 10; 1: adds 10; 2: nothing */
    CALL(aclrtSetLabel(label[0], stream));
    add(5, 1, stream);
    CALL(aclrtSetLabel(label[1], stream));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSetLabel(label[1], stream));
    add(5, 2, stream);
    CALL(aclrtSetLabel(label[2], stream));
    CALL(aclmdlRIEndTask(model, stream));
    CALL(aclmdlRIBuildEnd(model, NULL));
    set(1, 1);
    set(2, 10);
    for (int64_t i = 0; i < 5; i++) {
        set(0, i);
        set(5, 0);
        CALL(aclmdlRIExecute(model, -1));
        EXPECT(get(5) == (i == 0 ? 11 : i == 1 ? 10 : 0));
    }
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyLabelList(list));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDestroyLabelList(list));
    for (int i = 0; i < 3; i++)
        CALL(aclrtDestroyLabel(label[i]));
    CALL(aclrtDestroyLabel(lone));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDestroyLabel(lone));
    CALL(aclrtDestroyStream(stream));
}

/* A copy of pageable memory is made at the call, also while a capture runs, and is no task. */
static void pageable(void)
{
    aclrtStream stream = persistent(), other;
    aclmdlRI model, captured;
    int64_t value = 7, back = 0;

    set(0, 0);
    set(1, 1);
    CALL(aclrtCreateStream(&other));
    CALL(aclmdlRICaptureBegin(other, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, stream, 0));
    add(0, 1, stream);
    CALL(aclrtMemcpyAsync(&words[0], sizeof(value), &value, sizeof(value),
                          ACL_MEMCPY_HOST_TO_DEVICE, stream));
    EXPECT(get(0) == 7);
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpyAsync(&words[0], sizeof(value), &value, sizeof(value),
                           ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    CALL(aclmdlRICaptureEnd(other, &captured));
    CALL(aclmdlRIDestroy(captured));
    value = 100;
    CALL(aclrtMemcpy2dAsync(&back, sizeof(back), &words[0], sizeof(back), sizeof(back), 1,
                            ACL_MEMCPY_DEVICE_TO_HOST, stream));
    EXPECT(back == 7);
    CALL(aclmdlRIEndTask(model, stream));
    CALL(aclmdlRIBuildEnd(model, NULL));
    FAILS(ACL_ERROR_RT_STREAM_MODEL,
          aclrtMemcpyAsync(&words[0], sizeof(value), &value, sizeof(value),
                           ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclmdlRIExecute(model, -1));
    CALL(aclmdlRIExecute(model, -1));
    EXPECT(get(0) == 9 && back == 7);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtDestroyStream(other));
}

static aclrtEvent sync_event(void)
{
    aclrtEvent event;

    CALL(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    return event;
}

static void refused_events(aclrtStream stream)
{
    aclrtEvent events[3];

    CALL(aclrtCreateEvent(&events[0]));
    CALL(aclrtCreateEventExWithFlag(&events[1], ACL_EVENT_SYNC));
    CALL(aclrtCreateEventExWithFlag(&events[2], ACL_EVENT_IPC));
    for (unsigned i = 0; i < 3; i++) {
        FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(events[i], stream));
        FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamWaitEvent(stream, events[i]));
        CALL(aclrtDestroyEvent(events[i]));
    }
}

/* words[1] += words[0]; words[2] += words[1], when `go` is recorded; then words[3] += words[2] */
static void events(void)
{
    aclrtStream first = persistent(), second = persistent(), caller, outside;
    aclrtEvent between = sync_event(), go = sync_event(), done = sync_event();
    aclmdlRI model;

    CALL(aclrtCreateStream(&caller));
    CALL(aclrtCreateStream(&outside));
    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
    CALL(aclmdlRIBindStream(model, second, ACL_MODEL_STREAM_FLAG_HEAD));
    refused_events(first);
    add(1, 0, first);
    CALL(aclrtRecordEvent(between, first));
    CALL(aclrtStreamWaitEvent(second, between));
    CALL(aclrtResetEvent(between, second));
    CALL(aclrtStreamWaitEvent(second, go));
    CALL(aclrtResetEvent(go, second));
    add(2, 1, second);
    CALL(aclrtRecordEvent(done, second));
    CALL(aclmdlRIEndTask(model, second));
    CALL(aclmdlRIBuildEnd(model, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeEvent(done));
    for (unsigned i = 0; i < 4; i++)
        set(i, i == 0);
    for (int64_t i = 1; i <= 3; i++) {
        CALL(aclrtStreamWaitEvent(outside, done));
        CALL(aclrtResetEvent(done, outside));
        add(3, 2, outside);
        CALL(aclmdlRIExecuteAsync(model, caller));
        FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(caller, 10));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeEvent(done));
        CALL(aclrtRecordEvent(go, NULL));
        CALL(aclrtSynchronizeStream(outside));
        CALL(aclrtSynchronizeStream(caller));
        EXPECT(get(1) == i && get(2) == i * (i + 1) / 2 && get(3) == i * (i + 1) * (i + 2) / 6);
    }
    CALL(aclrtRecordEvent(done, outside));
    CALL(aclrtSynchronizeEvent(done));
    CALL(aclrtDestroyEvent(between));
    CALL(aclrtDestroyEvent(go));
    CALL(aclrtDestroyEvent(done));
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(first));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtDestroyStream(caller));
    CALL(aclrtDestroyStream(outside));
}

/* One of the two kinds of signals. */
struct signal {
    aclrtEvent event;
    aclrtNotify notify; /* NULL: the event */
};

static struct signal new_signal(bool notify)
{
    struct signal signal = {NULL, NULL};

    if (notify)
        CALL(aclrtCreateNotify(&signal.notify, ACL_NOTIFY_DEVICE_USE_ONLY));
    else
        signal.event = sync_event();
    return signal;
}

static void end_signal(const struct signal *signal)
{
    if (signal->notify)
        CALL(aclrtDestroyNotify(signal->notify));
    else
        CALL(aclrtDestroyEvent(signal->event));
}

static void tell(const struct signal *signal, aclrtStream stream)
{
    if (signal->notify)
        CALL(aclrtRecordNotify(signal->notify, stream));
    else
        CALL(aclrtRecordEvent(signal->event, stream));
}

static void await(const struct signal *signal, aclrtStream stream)
{
    if (signal->notify) {
        CALL(aclrtWaitAndResetNotify(signal->notify, stream, 0));
    } else {
        CALL(aclrtStreamWaitEvent(stream, signal->event));
        CALL(aclrtResetEvent(signal->event, stream));
    }
}

/*
 * Streams that wait for each other, in both directions, and in calls that come before the record:
 * words[1] += words[0]; words[2] += words[1]; words[3] += words[2]
 */
static void side_by_side(bool starts, bool notify)
{
    aclrtStream first = persistent(), second = persistent(), outside;
    const struct signal there = new_signal(notify), back = new_signal(notify),
                        self = new_signal(notify);
    aclmdlRI model;

    CALL(aclrtCreateStream(&outside));
    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
    CALL(aclmdlRIBindStream(model, second,
                            starts ? ACL_MODEL_STREAM_FLAG_DEFAULT : ACL_MODEL_STREAM_FLAG_HEAD));
    await(&there, second); /* also before the call that starts it */
    add(2, 1, second);
    tell(&back, second);
    add(1, 0, first);
    if (starts)
        CALL(aclrtActiveStream(second, first));
    tell(&there, first);
    await(&back, first);
    add(3, 2, first);
    await(&self, first); /* nothing in the model comes before it */
    tell(&self, first);
    CALL(aclmdlRIEndTask(model, first));
    CALL(aclmdlRIBuildEnd(model, NULL));
    for (unsigned i = 0; i < 4; i++)
        set(i, i == 0);
    tell(&self, outside);
    CALL(aclrtSynchronizeStream(outside));
    for (int64_t i = 1; i <= 3; i++) {
        CALL(aclmdlRIExecute(model, 10000));
        EXPECT(get(1) == i && get(2) == i * (i + 1) / 2 && get(3) == i * (i + 1) * (i + 2) / 6);
    }
    end_signal(&there);
    end_signal(&back);
    end_signal(&self);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(first));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtDestroyStream(outside));
}

/* While it does not run, the task that does is not ended in its place. */
static void abort_behind(aclmdlRI model)
{
    aclrtStream outside;
    aclrtEvent go, over;
    aclError error;

    CALL(aclrtCreateStream(&outside));
    CALL(aclrtCreateEventWithFlag(&go, ACL_EVENT_SYNC));
    CALL(aclrtCreateEventWithFlag(&over, ACL_EVENT_SYNC));
    CALL(aclrtStreamWaitEvent(NULL, go));
    CALL(aclrtRecordEvent(over, NULL));
    CALL(aclmdlRIExecuteAsync(model, NULL));
    CALL(aclmdlRIAbort(model));
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(over, 50));
    CALL(aclrtRecordEvent(go, outside));
    do {
        CALL(aclmdlRIAbort(model));
        error = aclrtSynchronizeStreamWithTimeout(NULL, 10);
    } while (error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    EXPECT(error == ACL_ERROR_RT_STREAM_ABORT);
    CALL(aclrtSynchronizeEvent(over));
    CALL(aclrtDestroyEvent(go));
    CALL(aclrtDestroyEvent(over));
    CALL(aclrtDestroyStream(outside));
}

/* Too late, and ended. */
static void limits(void)
{
    aclrtStream stream = persistent();
    aclmdlRI model;

    CALL(aclmdlRIBuildBegin(&model, 0));
    CALL(aclmdlRIBindStream(model, stream, 0));
    CALL(aclnpudLaunchDelay(60000000, 0, stream));
    CALL(aclmdlRIEndTask(model, stream));
    CALL(aclmdlRIBuildEnd(model, NULL));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclmdlRIExecute(model, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroy(NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAbort(NULL));
    CALL(aclmdlRIAbort(model));
    EXPECT(aclrtSynchronizeStream(NULL) != 0);
    CALL(aclmdlRIAbort(model));
    abort_behind(model);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(stream));
}

int main(void)
{
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc((void **)&words, WORDS * sizeof(*words), ACL_MEM_MALLOC_HUGE_FIRST));
    one_stream();
    loop_of_streams();
    started();
    labels();
    pageable();
    events();
    for (int i = 0; i < 4; i++)
        side_by_side(i & 1, i & 2);
    limits();
    CALL(aclrtFree(words));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
