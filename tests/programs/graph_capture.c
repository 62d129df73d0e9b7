/*
 * Streams that are captured: what is recorded runs when the model is executed, as often as asked.
 */
#include "expect.h"

#include <acl/acl_npud.h>
#include <pthread.h>
#include <string.h>

#define BYTES 4096u
#define TIMES 20

static aclrtStream s1, s2;
static void *device;
static unsigned char *host;
static int calls;

static void count_call(void *data)
{
    calls += *(int *)data;
}

static aclmdlRICaptureStatus status_of(aclrtStream stream)
{
    aclmdlRICaptureStatus status;

    CALL(aclmdlRICaptureGetInfo(stream, &status, NULL));
    return status;
}

/* Nothing runs before the execution; then everything, in order, and again. */
static void replay(void)
{
    aclmdlRI model = NULL, found = NULL;
    aclmdlRICaptureStatus status;
    int one = 1;

    CALL(aclrtMemset(device, BYTES, 0, BYTES));
    memset(host, 1, BYTES);
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtMemcpyAsync(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s1));
    CALL(aclrtLaunchHostFunc(s1, count_call, &one));
    CALL(aclrtMemsetAsync(device, BYTES, 7, BYTES / 2, s1));
    CALL(aclmdlRICaptureGetInfo(s1, &status, &found));
    EXPECT(status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE && found);
    FAILS(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIDestroy(found));
    FAILS(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIExecuteAsync(found, s2));
    CALL(aclmdlRICaptureEnd(s1, &model));
    EXPECT(model == found && status_of(s1) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    CALL(aclrtSynchronizeStream(s1));
    CALL(aclrtMemcpy(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(host[0] == 0 && host[BYTES - 1] == 0 && calls == 0);
    for (int i = 1; i <= TIMES; i++) {
        memset(host, i, BYTES);
        CALL(aclmdlRIExecuteAsync(model, i % 2 ? s1 : s2));
        CALL(aclrtSynchronizeStream(i % 2 ? s1 : s2));
        EXPECT(calls == i);
        CALL(aclrtMemcpy(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        EXPECT(host[0] == 7 && host[BYTES - 1] == i);
    }
    for (int i = 0; i < TIMES; i++)
        CALL(aclmdlRIExecuteAsync(model, i % 2 ? s1 : s2));
    CALL(aclrtSynchronizeDevice());
    EXPECT(calls == 2 * TIMES);
    CALL(aclmdlRIExecuteAsync(model, NULL));
    CALL(aclmdlRIDestroy(model));
    EXPECT(calls == 2 * TIMES + 1);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIDestroy(model));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(model, s1));
}

/* Of any number, and at an address that is aligned to 4 bytes alone. */
static void words(void)
{
    static const size_t counts[] = {1, 2, 3, 7, BYTES / 4 - 2};
    uint32_t *at = (uint32_t *)(void *)(device + 4), *got = (uint32_t *)(void *)host;
    aclmdlRI model;

    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        CALL(aclrtMemsetD32Async(at, BYTES - 4, 0x12345678 + i, counts[i], s1));
        CALL(aclmdlRICaptureEnd(s1, &model));
        for (int again = 0; again < 2; again++) {
            CALL(aclrtMemset(device, BYTES, 0, BYTES));
            CALL(aclmdlRIExecuteAsync(model, s1));
            CALL(aclrtSynchronizeStream(s1));
            CALL(aclrtMemcpy(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
            for (size_t k = 0; k < BYTES / 4; k++)
                EXPECT(got[k] == (k >= 1 && k <= counts[i] ? 0x12345678 + i : 0));
        }
        CALL(aclmdlRIDestroy(model));
    }
}

static void refuse(void)
{
    aclmdlRI model = (void *)1;
    aclrtStream standard;
    aclrtStreamStatus status;
    aclmdlRICaptureMode mode = 3;

    CALL(aclrtCtxGetCurrentDefaultStream(&standard));
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureBegin(s1, 0));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStream(s1));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStreamWithTimeout(s1, 1));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtStreamQuery(s1, &status));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeDevice());
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtDestroyStream(s1));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtDestroyStreamForce(s1));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtResetOverflowStatus(s1));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtMemcpyAsync(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, s1));
    CALL(aclrtSynchronizeStream(s2));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureEnd(s1, NULL));
    CALL(aclmdlRICaptureEnd(s1, &model));
    CALL(aclmdlRIExecuteAsync(model, s1)); /* an empty one */
    CALL(aclrtSynchronizeStream(s1));
    CALL(aclmdlRIDestroy(model));
    FAILS(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureEnd(s1, &model));
    EXPECT(!model);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureBegin(s1, 3));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureBegin(NULL, 0));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRICaptureBegin(standard, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureEnd(NULL, &model));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureGetInfo(NULL, NULL, &model));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureGetInfo(s1, NULL, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIExecuteAsync(NULL, s1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroy(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureThreadExchangeMode(NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureThreadExchangeMode(&mode));
}

/* --- modes --- */

static aclrtContext context;
static aclError plain_copy, relaxed_copy, end_code;
static aclmdlRI end_model;

static aclError copy(void)
{
    return aclrtMemcpy(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE);
}

static void *other_thread(void *arg)
{
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

    (void)arg;
    CALL(aclrtSetCurrentContext(context));
    plain_copy = copy();
    CALL(aclmdlRICaptureThreadExchangeMode(&mode));
    EXPECT(mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    relaxed_copy = copy();
    CALL(aclmdlRICaptureThreadExchangeMode(&mode));
    EXPECT(mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    end_model = (void *)1;
    end_code = aclmdlRICaptureEnd(s1, &end_model);
    return NULL;
}

static void restricted(aclmdlRICaptureMode mode, aclError own, aclError others, aclError end)
{
    pthread_t thread;

    CALL(aclmdlRICaptureBegin(s1, mode));
    FAILS(own, copy());
    FAILS(own, aclrtMemset(device, BYTES, 0, BYTES));
    EXPECT(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    pthread_join(thread, NULL);
    EXPECT(plain_copy == others && relaxed_copy == 0 && end_code == end);
    EXPECT(!end_model == (end != 0));
    EXPECT(status_of(s1) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    CALL(copy());
    CALL(aclrtSynchronizeStream(s1));
    if (end == 0)
        CALL(aclmdlRIDestroy(end_model));
}

static void pageable(void)
{
    char text[16] = "pageable";
    aclmdlRI model;

    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpyAsync(device, BYTES, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE, s1));
    FAILS(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
          aclrtMemcpyAsync(device, BYTES, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE, s2));
    CALL(aclmdlRICaptureEnd(s1, &model));
    CALL(aclmdlRIDestroy(model));
}

/* --- fork and join --- */

static void forked(void)
{
    aclrtEvent e, e2, plain;
    aclrtEventRecordedStatus recorded;
    aclmdlRI model;

    CALL(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    CALL(aclrtCreateEventExWithFlag(&e2, ACL_EVENT_SYNC));
    CALL(aclrtCreateEvent(&plain));
    /* not joined */
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtRecordEvent(e, s1));
    CALL(aclrtStreamWaitEvent(s2, e));
    CALL(aclrtMemsetAsync(device, BYTES, 3, BYTES, s2));
    EXPECT(status_of(s2) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    FAILS(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEvent(e));
    FAILS(ACL_ERROR_RT_EVENT_CAPTURED, aclrtQueryEventStatus(e, &recorded));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStream(s2));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, aclmdlRICaptureEnd(s2, &model));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclrtStreamWaitEvent(NULL, e));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclrtRecordEvent(e, NULL));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(plain, s1));
    FAILS(ACL_ERROR_RT_STREAM_UNJOINED, aclmdlRICaptureEnd(s1, &model));
    EXPECT(!model && status_of(s2) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    CALL(aclrtQueryEventStatus(e, &recorded));
    /* joined */
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtMemsetAsync(device, BYTES, 2, BYTES, s1));
    CALL(aclrtRecordEvent(e, s1));
    CALL(aclrtStreamWaitEvent(s2, e));
    CALL(aclrtMemsetAsync(device, BYTES, 3, 16, s2));
    CALL(aclrtRecordEvent(e2, s2));
    CALL(aclrtStreamWaitEvent(s1, e2));
    CALL(aclrtMemsetAsync(device, BYTES, 4, 8, s1));
    CALL(aclmdlRICaptureEnd(s1, &model));
    CALL(aclmdlRIExecuteAsync(model, s2));
    CALL(aclrtSynchronizeStream(s2));
    CALL(aclrtMemcpy(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(host[0] == 4 && host[8] == 3 && host[16] == 2);
    CALL(aclmdlRIDestroy(model));
    /*
     * used after its capture, the event is an ordinary one again; a wait inside needs a record
     * there
     */
    CALL(aclrtRecordEvent(e, s1));
    CALL(aclrtSynchronizeEvent(e));
    CALL(aclmdlRICaptureBegin(s2, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    FAILS(ACL_ERROR_RT_CAPTURE_DEPENDENCY, aclrtStreamWaitEvent(s2, e));
    EXPECT(status_of(s2) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclrtMemsetAsync(device, BYTES, 1, BYTES, s2));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(s2, &model));
    EXPECT(!model);
    /* two captures */
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclmdlRICaptureBegin(s2, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtRecordEvent(e, s1));
    FAILS(ACL_ERROR_STREAM_CAPTURE_CONFLICT, aclrtStreamWaitEvent(s2, e));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(s1, &model));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(s2, &model));
    CALL(aclrtDestroyEvent(e));
    CALL(aclrtDestroyEvent(e2));
    CALL(aclrtDestroyEvent(plain));
}

/* An event whose records and waits are tasks of the model. */
static void external(void)
{
    aclrtEvent e, done;
    aclmdlRI model;

    CALL(aclrtCreateEventWithFlag(&e, ACL_EVENT_EXTERNAL));
    CALL(aclrtCreateEventWithFlag(&done, ACL_EVENT_EXTERNAL));
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtStreamWaitEvent(s1, e));
    CALL(aclrtResetEvent(e, s1));
    CALL(aclrtMemcpyAsync(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s1));
    CALL(aclrtRecordEvent(done, s1));
    CALL(aclmdlRICaptureEnd(s1, &model));
    for (int i = 1; i < 10; i++) {
        CALL(aclmdlRIExecuteAsync(model, s1));
        CALL(aclrtMemsetAsync(device, BYTES, i, BYTES, s2));
        CALL(aclrtRecordEvent(e, s2));
        CALL(aclrtStreamWaitEvent(s2, done));
        CALL(aclrtResetEvent(done, s2));
        CALL(aclrtSynchronizeStream(s2));
        EXPECT(host[0] == i && host[BYTES - 1] == i);
    }
    CALL(aclrtSynchronizeStream(s1));
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyEvent(e));
    CALL(aclrtDestroyEvent(done));
}

/*
 * The same by a flag of one call: the wait is for the record that is the latest at the execution.
 */
static void external_by_flag(void)
{
    aclrtEvent e, done;
    aclrtEventRecordedStatus status;
    aclmdlRI model;

    CALL(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    CALL(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtStreamWaitEventWithFlag(s1, e, 0, ACL_EVENT_WAIT_EXTERNAL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtStreamWaitEventWithFlag(s1, e, 0, ACL_EVENT_WAIT_EXTERNAL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRecordEventWithFlag(e, s1, ACL_EVENT_RECORD_EXTERNAL));
    CALL(aclrtMemcpyAsync(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s1));
    CALL(aclrtRecordEventWithFlag(done, s1, ACL_EVENT_RECORD_EXTERNAL));
    CALL(aclmdlRICaptureEnd(s1, &model));
    for (int i = 1; i < 10; i++) {
        /* after the execution, for the first one; before it, for the others */
        if (i == 1)
            CALL(aclmdlRIExecuteAsync(model, s1));
        CALL(aclnpudLaunchDelay(2000, 0, s2));
        CALL(aclrtMemsetAsync(device, BYTES, i, BYTES, s2));
        CALL(aclrtRecordEvent(e, s2));
        if (i > 1)
            CALL(aclmdlRIExecuteAsync(model, s1));
        CALL(aclrtStreamWaitEvent(s2, done));
        CALL(aclrtSynchronizeStream(s2));
        EXPECT(host[0] == i && host[BYTES - 1] == i);
        CALL(aclrtSynchronizeEvent(done));
        CALL(aclrtQueryEventStatus(done, &status));
        EXPECT(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    }
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyEvent(e));
    CALL(aclrtDestroyEvent(done));
}

/* A failure ends its execution, not the next one. */
static void failing(void)
{
    aclmdlRI model;
    int one = 1, before;

    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(aclrtLaunchHostFunc(s1, count_call, &one));
    CALL(aclnpudLaunchDelay(0, 507015, s1));
    CALL(aclrtLaunchHostFunc(s1, count_call, &one));
    CALL(aclmdlRICaptureEnd(s1, &model));
    before = calls;
    for (int i = 1; i <= TIMES; i++) {
        CALL(aclmdlRIExecuteAsync(model, s1));
        FAILS(507015, aclrtSynchronizeStream(s1));
        EXPECT(calls == before + i);
    }
    CALL(aclmdlRIDestroy(model));
}

static void farewell(void *data)
{
    ++*(int *)data;
}

static void names(void)
{
    aclmdlRI a, b;
    uint32_t id_a, id_b;
    char name[16];
    int times = 0;

    CALL(aclmdlRICaptureBegin(s1, 0));
    CALL(aclmdlRICaptureEnd(s1, &a));
    CALL(aclmdlRICaptureBegin(s1, 0));
    CALL(aclmdlRICaptureEnd(s1, &b));
    CALL(aclmdlRIGetId(a, &id_a));
    CALL(aclmdlRIGetId(b, &id_b));
    EXPECT(id_a != id_b);
    CALL(aclmdlRIGetName(a, sizeof(name), name));
    EXPECT(name[0] == 0);
    CALL(aclmdlRISetName(a, "first"));
    CALL(aclmdlRISetName(a, "second"));
    CALL(aclmdlRIGetName(a, sizeof(name), name));
    EXPECT(strcmp(name, "second") == 0);
    CALL(aclmdlRIGetName(a, 7, name));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRIGetName(a, 6, name));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIGetName(a, 0, name));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRISetName(a, NULL));
    CALL(aclmdlRIDestroyRegisterCallback(a, farewell, &times));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroyRegisterCallback(a, farewell, &times));
    CALL(aclmdlRIDestroyRegisterCallback(b, farewell, &times));
    CALL(aclmdlRIDestroyUnregisterCallback(b, farewell));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroyUnregisterCallback(b, farewell));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroyRegisterCallback(NULL, farewell, &times));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroyRegisterCallback(a, NULL, &times));
    CALL(aclmdlRIDestroy(a));
    EXPECT(times == 1);
    CALL(aclmdlRIDestroy(b));
    EXPECT(times == 1);
}

/* What a capture and a model leave when their context goes. */
static void left_behind(void)
{
    aclrtContext other;
    aclrtStream stream;
    aclmdlRI model;

    CALL(aclrtCreateContext(&other, 0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclmdlRICaptureBegin(stream, 0));
    CALL(aclrtMemsetAsync(device, BYTES, 1, BYTES, stream));
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclrtSetCurrentContext(context));
    FAILS(ACL_ERROR_RT_MODEL_CONTEXT, aclmdlRIExecuteAsync(model, s1));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclmdlRICaptureBegin(stream, 0));
    CALL(aclrtSetCurrentContext(other));
    CALL(aclmdlRICaptureBegin(stream, 0));
    CALL(aclrtSetCurrentContext(context));
    CALL(copy()); /* the capture is of the other context */
    CALL(aclrtDestroyContext(other));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIDestroy(model));
}

int main(void)
{
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&context));
    CALL(aclrtCreateStream(&s1));
    CALL(aclrtCreateStream(&s2));
    CALL(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost((void **)&host, BYTES));
    replay();
    words();
    refuse();
    restricted(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
               ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
    restricted(ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, 0,
               ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
    restricted(ACL_MODEL_RI_CAPTURE_MODE_RELAXED, 0, 0, 0);
    pageable();
    forked();
    external();
    external_by_flag();
    failing();
    names();
    left_behind();
    CALL(aclrtFreeHost(host));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(s1));
    CALL(aclrtDestroyStream(s2));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
