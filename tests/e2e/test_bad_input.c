/*
 * Bad input to every public function: null, stale and forged handles, values at and beyond the
 * edges, threads without context, streams of other contexts, and everything once more after npud
 * was killed. Always the documented code, a sentence that names the function, outputs left as they
 * were, and never a crash or a hang.
 */
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/harness.h"

#define MIB      ((size_t)1 << 20)
#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define NULL_ARG ACL_ERROR_INVALID_PARAM
#define HANDLE   ACL_ERROR_RT_INVALID_HANDLE
#define UNBOUND  ACL_ERROR_RT_CONTEXT_NULL
#define LOST     ACL_ERROR_RT_SOCKET_CLOSE

static aclrtStream stream;
static aclrtEvent event, ipc;
static aclrtContext context;
static char *device, *pinned, pageable[4096];
static aclrtIpcEventHandle ipc_handle;

/* Where outputs go. Filled before each call; a call that fails must leave it so. */
#define FILL 0x5a
static union {
    unsigned char bytes[256];
    void *pointer;
    int32_t i32;
    uint32_t u32;
    uint64_t u64;
    float ms;
    size_t size[2];
    aclrtIpcEventHandle handle;
    aclrtPtrAttributes attributes;
    aclrtStreamStatus stream_status;
    aclrtEventStatus event_status;
    aclrtEventRecordedStatus recorded_status;
    aclrtEventWaitStatus wait_status;
    aclrtDeviceStatus device_status;
    aclrtRunMode run_mode;
} out;

static bool out_untouched(void)
{
    for (size_t i = 0; i < sizeof(out); i++)
        if (out.bytes[i] != FILL)
            return false;
    return true;
}

/* text: the call, beginning with the name of the function. */
static void check_refused(const char *text, aclError expected, aclError got, int line)
{
    const char *sentence = aclGetRecentErrMsg();
    char function[64];

    snprintf(function, sizeof(function), "%.*s", (int)strcspn(text, "("), text);
    ck_assert_msg(got == expected, "line %d: %s: %d (%s), expected %d", line, text, got,
                  sentence ? sentence : "no sentence", expected);
    ck_assert_msg(sentence && strstr(sentence, function), "line %d: %s: sentence \"%s\"", line,
                  text, sentence ? sentence : "");
    ck_assert_msg(out_untouched(), "line %d: %s: wrote to an output", line, text);
}

static void reset_results(void)
{
    memset(&out, FILL, sizeof(out));
    aclGetRecentErrMsg();
}

#define REFUSED(code, call)                                                                        \
    do {                                                                                           \
        reset_results();                                                                           \
        check_refused(#call, (code), (call), __LINE__);                                            \
    } while (0)

static void make_objects(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, &ipc_handle));
    OK(aclrtMalloc((void **)&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost((void **)&pinned, 4096));
}

static void set_up_test(void)
{
    npud_setup();
    make_objects();
}

/* --- null, function by function --- */

START_TEST(null_of_devices_and_contexts)
{
    REFUSED(NULL_ARG, aclrtCreateContext(NULL, 0));
    REFUSED(NULL_ARG, aclrtDestroyContext(NULL));
    REFUSED(NULL_ARG, aclrtSetCurrentContext(NULL));
    REFUSED(NULL_ARG, aclrtGetCurrentContext(NULL));
    REFUSED(NULL_ARG, aclrtCtxGetCurrentDefaultStream(NULL));
    REFUSED(NULL_ARG, aclrtGetPrimaryCtxState(0, NULL, NULL));
    REFUSED(NULL_ARG, aclrtGetPrimaryCtxState(0, &out.u32, &out.i32));
    REFUSED(NULL_ARG, aclrtGetDevice(NULL));
    REFUSED(NULL_ARG, aclrtGetDeviceCount(NULL));
    REFUSED(NULL_ARG, aclrtGetRunMode(NULL));
    REFUSED(NULL_ARG, aclrtQueryDeviceStatus(0, NULL));
    REFUSED(NULL_ARG, aclrtDeviceGetBareTgid(NULL));
    REFUSED(NULL_ARG, aclrtGetMemInfo(ACL_HBM_MEM, NULL, &out.size[1]));
    REFUSED(NULL_ARG, aclrtGetMemInfo(ACL_HBM_MEM, &out.size[0], NULL));
    REFUSED(PARAM, aclrtDeviceCanAccessPeer(NULL, 0, 1));
    REFUSED(NULL_ARG, aclrtDevicePeerAccessStatus(0, 1, NULL));
    REFUSED(NULL_ARG, aclrtGetVersion(NULL, &out.i32, &out.i32));
    REFUSED(NULL_ARG, aclrtGetVersion(&out.i32, NULL, &out.i32));
    REFUSED(NULL_ARG, aclrtGetVersion(&out.i32, &out.i32, NULL));
    OK(aclrtDeviceGetStreamPriorityRange(NULL, NULL));
    OK(aclrtDeviceGetStreamPriorityRange(&out.i32, NULL));
    ck_assert_int_eq(out.i32, 7);
    OK(aclrtDeviceGetStreamPriorityRange(NULL, &out.i32));
    ck_assert_int_eq(out.i32, 0);
}
END_TEST

START_TEST(null_of_streams)
{
    REFUSED(NULL_ARG, aclrtCreateStream(NULL));
    REFUSED(NULL_ARG, aclrtCreateStreamWithConfig(NULL, 0, 0));
    REFUSED(NULL_ARG, aclrtDestroyStream(NULL));
    REFUSED(NULL_ARG, aclrtDestroyStreamForce(NULL));
    REFUSED(NULL_ARG, aclrtStreamQuery(stream, NULL));
    REFUSED(NULL_ARG, aclrtStreamGetId(stream, NULL));
    REFUSED(NULL_ARG, aclrtStreamGetPriority(stream, NULL));
    REFUSED(NULL_ARG, aclrtStreamGetFlags(stream, NULL));
}
END_TEST

START_TEST(null_of_events)
{
    REFUSED(NULL_ARG, aclrtCreateEvent(NULL));
    REFUSED(NULL_ARG, aclrtCreateEventWithFlag(NULL, ACL_EVENT_SYNC));
    REFUSED(NULL_ARG, aclrtCreateEventExWithFlag(NULL, ACL_EVENT_SYNC));
    REFUSED(NULL_ARG, aclrtDestroyEvent(NULL));
    REFUSED(NULL_ARG, aclrtRecordEvent(NULL, stream));
    REFUSED(NULL_ARG, aclrtRecordEventWithFlag(NULL, stream, 0));
    REFUSED(NULL_ARG, aclrtResetEvent(NULL, stream));
    REFUSED(NULL_ARG, aclrtQueryEvent(NULL, &out.event_status));
    REFUSED(NULL_ARG, aclrtQueryEvent(event, NULL));
    REFUSED(NULL_ARG, aclrtQueryEventStatus(NULL, &out.recorded_status));
    REFUSED(NULL_ARG, aclrtQueryEventStatus(event, NULL));
    REFUSED(NULL_ARG, aclrtQueryEventWaitStatus(NULL, &out.wait_status));
    REFUSED(NULL_ARG, aclrtQueryEventWaitStatus(event, NULL));
    REFUSED(NULL_ARG, aclrtSynchronizeEvent(NULL));
    REFUSED(NULL_ARG, aclrtSynchronizeEventWithTimeout(NULL, -1));
    REFUSED(NULL_ARG, aclrtSynchronizeEventWithTimeout(NULL, 0));
    REFUSED(PARAM, aclrtSynchronizeEventWithTimeout(NULL, -2));
    REFUSED(NULL_ARG, aclrtEventElapsedTime(NULL, event, event));
    REFUSED(NULL_ARG, aclrtEventElapsedTime(&out.ms, NULL, event));
    REFUSED(NULL_ARG, aclrtEventElapsedTime(&out.ms, event, NULL));
    REFUSED(NULL_ARG, aclrtEventGetTimestamp(NULL, &out.u64));
    REFUSED(NULL_ARG, aclrtEventGetTimestamp(event, NULL));
    REFUSED(NULL_ARG, aclrtGetEventId(NULL, &out.u32));
    REFUSED(NULL_ARG, aclrtGetEventId(event, NULL));
    REFUSED(NULL_ARG, aclrtGetEventAvailNum(NULL));
    REFUSED(NULL_ARG, aclrtStreamWaitEvent(stream, NULL));
    REFUSED(PARAM, aclrtStreamWaitEventWithTimeout(stream, NULL, 0));
    REFUSED(NULL_ARG, aclrtStreamWaitEventWithFlag(stream, NULL, 0, 0));
    REFUSED(NULL_ARG, aclrtIpcGetEventHandle(NULL, &out.handle));
    REFUSED(NULL_ARG, aclrtIpcGetEventHandle(ipc, NULL));
    REFUSED(NULL_ARG, aclrtIpcOpenEventHandle(ipc_handle, NULL));
}
END_TEST

START_TEST(null_of_memory)
{
    REFUSED(NULL_ARG, aclrtMalloc(NULL, 1, 0));
    REFUSED(NULL_ARG, aclrtMallocAlign32(NULL, 1, 0));
    REFUSED(NULL_ARG, aclrtMallocCached(NULL, 1, 0));
    REFUSED(NULL_ARG, aclrtMallocHost(NULL, 1));
    REFUSED(NULL_ARG, aclrtFree(NULL));
    REFUSED(NULL_ARG, aclrtFreeHost(NULL));
    REFUSED(NULL_ARG, aclrtPointerGetAttributes(NULL, &out.attributes));
    REFUSED(NULL_ARG, aclrtPointerGetAttributes(device, NULL));
    REFUSED(NULL_ARG, aclrtMemcpy(NULL, 1, device, 1, ACL_MEMCPY_DEFAULT));
    REFUSED(NULL_ARG, aclrtMemcpy(device, 1, NULL, 1, ACL_MEMCPY_DEFAULT));
    REFUSED(NULL_ARG, aclrtMemcpyAsync(NULL, 1, device, 1, ACL_MEMCPY_DEFAULT, stream));
    REFUSED(NULL_ARG, aclrtMemcpyAsync(device, 1, NULL, 1, ACL_MEMCPY_DEFAULT, stream));
    REFUSED(NULL_ARG, aclrtMemset(NULL, 1, 0, 1));
    REFUSED(NULL_ARG, aclrtMemsetAsync(NULL, 1, 0, 1, stream));
}
END_TEST

START_TEST(null_of_helpers)
{
    aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);

    ck_assert_ptr_nonnull(buffer);
    ck_assert_ptr_null(aclGetDataBufferAddr(buffer));
    OK(aclUpdateDataBuffer(buffer, pageable, SIZE_MAX));
    ck_assert_ptr_eq(aclGetDataBufferAddr(buffer), pageable);
    ck_assert_uint_eq(aclGetDataBufferSizeV2(buffer), SIZE_MAX);
    ck_assert_uint_eq(aclGetDataBufferSize(buffer), UINT32_MAX);
    OK(aclDestroyDataBuffer(buffer));
    REFUSED(NULL_ARG, aclDestroyDataBuffer(NULL));
    REFUSED(NULL_ARG, aclUpdateDataBuffer(NULL, pageable, 1));
    ck_assert_ptr_null(aclGetDataBufferAddr(NULL));
    ck_assert_uint_eq(aclGetDataBufferSizeV2(NULL), 0);
    ck_assert_uint_eq(aclGetDataBufferSize(NULL), 0);
    aclAppLog(ACL_ERROR, NULL, "file", 1, "not shown");
    aclAppLog(ACL_ERROR, "function", NULL, 1, "not shown");
    aclAppLog(ACL_ERROR, "function", "file", 1, NULL);
    OK(aclFinalizeReference(NULL));
}
END_TEST

START_TEST(odd_numbers_for_helpers)
{
    ck_assert_uint_eq(aclDataTypeSize(ACL_DT_UNDEFINED), 0);
    ck_assert_uint_eq(aclDataTypeSize(ACL_STRING), 0);
    ck_assert_uint_eq(aclDataTypeSize(ACL_COMPLEX128), 16);
    ck_assert_uint_eq(aclDataTypeSize((aclDataType)5), 8);
    ck_assert_uint_eq(aclDataTypeSize((aclDataType)INT_MAX), 8);
    ck_assert_uint_eq(aclDataTypeSize((aclDataType)INT_MIN), 8);
    ck_assert_uint_eq(aclFloatToFloat16(INFINITY), 0x7bff);
    ck_assert_uint_eq(aclFloatToFloat16(-INFINITY), 0xfbff);
    ck_assert_uint_eq(aclFloatToFloat16(1e9f), 0x7bff);
    ck_assert_uint_eq(aclFloatToFloat16(NAN) & 0x7fff, 0x7bff);
    ck_assert_uint_eq(aclFloatToFloat16(5.9604645e-8f), 1); /* the smallest subnormal */
    ck_assert_float_eq(aclFloat16ToFloat(1), 5.9604645e-8f);
    ck_assert_float_eq(aclFloat16ToFloat(0x7bff), 65504.0f);
    ck_assert_float_eq(aclFloat16ToFloat(0xfbff), -65504.0f);
}
END_TEST

/* --- bad handles --- */

/*
 * X(function, arguments with h for the handle): every function that takes a stream, an event, a
 * context.
 */
#define OF_STREAM(X)                                                                               \
    X(aclrtDestroyStream, h)                                                                       \
    X(aclrtDestroyStreamForce, h)                                                                  \
    X(aclrtSynchronizeStream, h)                                                                   \
    X(aclrtSynchronizeStreamWithTimeout, h, 1000)                                                  \
    X(aclrtStreamQuery, h, &out.stream_status)                                                     \
    X(aclrtStreamGetId, h, &out.i32)                                                               \
    X(aclrtStreamGetPriority, h, &out.u32)                                                         \
    X(aclrtStreamGetFlags, h, &out.u32)                                                            \
    X(aclrtRecordEvent, event, h)                                                                  \
    X(aclrtRecordEventWithFlag, event, h, 0)                                                       \
    X(aclrtResetEvent, level, h)                                                                   \
    X(aclrtStreamWaitEvent, h, event)                                                              \
    X(aclrtStreamWaitEventWithTimeout, h, event, 1)                                                \
    X(aclrtStreamWaitEventWithFlag, h, event, 1, 0)                                                \
    X(aclrtMemcpyAsync, device, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, h)                      \
    X(aclrtMemsetAsync, device, 64, 0, 64, h)                                                      \
    X(aclrtGetOverflowStatus, device, 64, h)                                                       \
    X(aclrtResetOverflowStatus, h)                                                                 \
    X(aclrtCmoAsync, device, 64, ACL_RT_CMO_TYPE_PREFETCH, h)                                      \
    X(aclnpudLaunchDelay, 0, 0, h)

#define OF_EVENT(X)                                                                                \
    X(aclrtDestroyEvent, h)                                                                        \
    X(aclrtRecordEvent, h, stream)                                                                 \
    X(aclrtRecordEventWithFlag, h, stream, 0)                                                      \
    X(aclrtResetEvent, h, stream)                                                                  \
    X(aclrtQueryEvent, h, &out.event_status)                                                       \
    X(aclrtQueryEventStatus, h, &out.recorded_status)                                              \
    X(aclrtQueryEventWaitStatus, h, &out.wait_status)                                              \
    X(aclrtSynchronizeEvent, h)                                                                    \
    X(aclrtSynchronizeEventWithTimeout, h, 1000)                                                   \
    X(aclrtEventElapsedTime, &out.ms, h, event)                                                    \
    X(aclrtEventElapsedTime, &out.ms, event, h)                                                    \
    X(aclrtEventGetTimestamp, h, &out.u64)                                                         \
    X(aclrtGetEventId, h, &out.u32)                                                                \
    X(aclrtStreamWaitEvent, stream, h)                                                             \
    X(aclrtStreamWaitEventWithTimeout, stream, h, 1)                                               \
    X(aclrtStreamWaitEventWithFlag, stream, h, 1, 0)                                               \
    X(aclrtIpcGetEventHandle, h, &out.handle)

static aclrtEvent level;

enum of_stream {
#define X(function, ...) STREAM_AT_##function,
    OF_STREAM(X)
#undef X
        OF_STREAM_COUNT
};

static aclError call_of_stream(int which, void *h, const char **name)
{
    switch (which) {
#define X(function, ...)                                                                           \
    case STREAM_AT_##function:                                                                     \
        *name = #function;                                                                         \
        return function(__VA_ARGS__);
        OF_STREAM(X)
#undef X
    default:
        ck_abort();
    }
}

/* Not an enum, since one function is here twice. */
#define X(function, ...) +1
enum { OF_EVENT_COUNT = OF_EVENT(X) };
#undef X

static aclError call_of_event(int which, void *h, const char **name)
{
    int i = 0;

#define X(function, ...)                                                                           \
    if (which == i++) {                                                                            \
        *name = #function;                                                                         \
        return function(__VA_ARGS__);                                                              \
    }
    OF_EVENT(X)
#undef X
    ck_abort();
}

static aclError call_of_context(int which, void *h, const char **name)
{
    *name = which ? "aclrtSetCurrentContext" : "aclrtDestroyContext";
    return which ? aclrtSetCurrentContext(h) : aclrtDestroyContext(h);
}

/* Of one that there was it is said that there is none. */
static void *destroyed_context;

static int code_of_context(int which, const void *h)
{
    return which && h != destroyed_context ? PARAM : UNBOUND;
}

/* Every function refuses h. kind: 's'tream, 'e'vent or 'c'ontext is what h is not. */
static void expect_refusals(char kind, void *h, const char *what)
{
    int n = kind == 's' ? OF_STREAM_COUNT : kind == 'e' ? OF_EVENT_COUNT : 2;
    const char *name;
    char text[128];

    for (int i = 0; i < n; i++) {
        aclError error;

        reset_results();
        error = kind == 's'   ? call_of_stream(i, h, &name)
                : kind == 'e' ? call_of_event(i, h, &name)
                              : call_of_context(i, h, &name);
        snprintf(text, sizeof(text), "%s(%s %p for a %c)", name, what, h, kind);
        check_refused(text, kind == 'c' ? code_of_context(i, h) : HANDLE, error, __LINE__);
    }
}

static void refuse_as_anything(void *h, const char *what)
{
    expect_refusals('s', h, what);
    expect_refusals('e', h, what);
    expect_refusals('c', h, what);
}

static void handle_setup(void)
{
    set_up_test();
    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEvent(event));
}

START_TEST(handles_of_another_kind)
{
    expect_refusals('s', event, "event");
    expect_refusals('s', ipc, "IPC event");
    expect_refusals('s', context, "context");
    expect_refusals('e', stream, "stream");
    expect_refusals('e', context, "context");
    expect_refusals('c', stream, "stream");
    expect_refusals('c', event, "event");
}
END_TEST

START_TEST(destroyed_handles)
{
    aclrtStream s, forced;
    aclrtEvent plain, shared;
    aclrtContext c;

    OK(aclrtCreateStream(&s));
    OK(aclrtCreateStream(&forced));
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyStreamForce(forced));
    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventExWithFlag(&shared, ACL_EVENT_IPC));
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyEvent(shared));
    OK(aclrtCreateContext(&c, 0));
    OK(aclrtDestroyContext(c));
    OK(aclrtSetCurrentContext(context));
    destroyed_context = c;
    refuse_as_anything(s, "destroyed stream");
    refuse_as_anything(forced, "destroyed stream");
    refuse_as_anything(plain, "destroyed event");
    refuse_as_anything(shared, "destroyed IPC event");
    refuse_as_anything(c, "destroyed context");
}
END_TEST

/* From the beginning of the call that destroys: it may wait for the stream's work. */
static aclrtStream doomed;

static void *destroy_doomed(void *arg)
{
    OK(aclrtSetCurrentContext(arg));
    OK(aclrtDestroyStream(doomed));
    return NULL;
}

START_TEST(handle_of_a_stream_that_is_being_destroyed)
{
    uint64_t give_up = now_ns() + UINT64_C(10000000000);
    aclrtStreamStatus status;
    pthread_t thread;
    aclError error;

    OK(aclrtCreateStream(&doomed));
    OK(aclrtStreamWaitEvent(doomed, level));
    pthread_create(&thread, NULL, destroy_doomed, context);
    do
        error = aclrtStreamQuery(doomed, &status);
    while (error == 0 && now_ns() < give_up);
    ck_assert_int_eq(error, HANDLE);
    expect_refusals('s', doomed, "stream being destroyed");
    OK(aclrtRecordEvent(level, stream));
    pthread_join(thread, NULL);
}
END_TEST

/* Also when the place of the old one has been taken again, many times over. */
START_TEST(handles_of_places_taken_again)
{
    aclrtStream s, first_stream;
    aclrtEvent e, first_event;

    OK(aclrtCreateStream(&first_stream));
    OK(aclrtDestroyStream(first_stream));
    OK(aclrtCreateEvent(&first_event));
    OK(aclrtDestroyEvent(first_event));
    for (int i = 0; i < 300; i++) {
        OK(aclrtCreateStream(&s));
        OK(aclrtCreateEvent(&e));
        ck_assert_ptr_ne(s, first_stream);
        ck_assert_ptr_ne(e, first_event);
        expect_refusals('s', first_stream, "old stream");
        expect_refusals('e', first_event, "old event");
        OK(aclrtDestroyStream(s));
        OK(aclrtDestroyEvent(e));
    }
}
END_TEST

START_TEST(garbage_handles)
{
    uint64_t x = 88172645463325252u;
    int on_the_stack = 0;
    void *unmapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    munmap(unmapped, 4096);
    refuse_as_anything((void *)1, "1");
    refuse_as_anything((void *)-1, "-1");
    refuse_as_anything((void *)INTPTR_MIN, "INTPTR_MIN");
    refuse_as_anything(&on_the_stack, "stack");
    refuse_as_anything(&out, "static memory");
    refuse_as_anything((void *)(uintptr_t)refuse_as_anything, "code");
    refuse_as_anything(unmapped, "unmapped");
    refuse_as_anything(device, "device memory");
    for (int i = 0; i < 2000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        refuse_as_anything((void *)(uintptr_t)x, "random");
    }
}
END_TEST

/*
 * A genuine handle with one bit wrong: not of its slot number, which may lead to another genuine
 * one.
 */
START_TEST(damaged_handles)
{
    for (int bit = 24; bit < 64; bit++) {
        expect_refusals('s', (void *)((uintptr_t)stream ^ UINT64_C(1) << bit), "damaged stream");
        expect_refusals('e', (void *)((uintptr_t)event ^ UINT64_C(1) << bit), "damaged event");
        expect_refusals('c', (void *)((uintptr_t)context ^ UINT64_C(1) << bit), "damaged context");
    }
    expect_refusals('s', (void *)((uintptr_t)stream | 0xffffff), "stream beyond the table");
    expect_refusals('e', (void *)((uintptr_t)event | 0xffffff), "event beyond the table");
    expect_refusals('c', (void *)((uintptr_t)context | 0xffffff), "context beyond the table");
    expect_refusals('s', (void *)((uintptr_t)stream | 0xf00), "stream never used");
    expect_refusals('e', (void *)((uintptr_t)event | 0xf00), "event never used");
}
END_TEST

static struct turn told, done;
static int handle_pipe[2];

static int tell_handles(void *arg)
{
    void *handles[4];

    (void)arg;
    make_objects();
    handles[0] = stream;
    handles[1] = event;
    handles[2] = ipc;
    handles[3] = context;
    ck_assert_int_eq(write(handle_pipe[1], handles, sizeof(handles)), sizeof(handles));
    turn_tell(&told);
    turn_await(&done);
    return 0;
}

START_TEST(handles_of_another_process)
{
    void *handles[4];
    pid_t pid;

    npud_setup();
    turn_init(&told);
    turn_init(&done);
    ck_assert_int_eq(pipe(handle_pipe), 0);
    pid = child_start(tell_handles, NULL);
    turn_await(&told);
    ck_assert_int_eq(read(handle_pipe[0], handles, sizeof(handles)), sizeof(handles));
    make_objects();
    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    for (int i = 0; i < 4; i++)
        refuse_as_anything(handles[i], "foreign");
    turn_tell(&done);
    child_expect_ok(pid);
}
END_TEST

/* All of it before anything was created, and before there is a session. */
START_TEST(handles_before_anything)
{
    const char *name;

    event = level = (void *)1;
    device = pinned = pageable;
    pinned++; /* not the same, or there is nothing to copy */
    for (int i = 0; i < OF_EVENT_COUNT; i++) {
        reset_results();
        check_refused("acl", HANDLE, call_of_event(i, (void *)1, &name), __LINE__);
    }
    for (int i = 0; i < OF_STREAM_COUNT; i++) {
        aclError error;

        reset_results();
        error = call_of_stream(i, (void *)1, &name);
        ck_assert_msg(error == HANDLE || error == UNBOUND, "%s: %d", name, error);
        ck_assert(out_untouched());
    }
    REFUSED(PARAM, aclrtSetCurrentContext((void *)1));
    REFUSED(UNBOUND, aclrtDestroyContext((void *)1));
    REFUSED(PARAM, aclrtFree(&out));
    REFUSED(PARAM, aclrtFreeHost(&out));
}
END_TEST

/* --- values at the edges --- */

START_TEST(device_ids)
{
    static const int32_t bad[] = {-1, 2, INT32_MAX, INT32_MIN, 255};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int32_t id = bad[i];
        aclError error;

        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(id));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDevice(id));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDeviceForce(id));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtCreateContext(&out.pointer, id));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetPrimaryCtxState(id, NULL, &out.i32));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtQueryDeviceStatus(id, &out.device_status));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceEnablePeerAccess(id, 0));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceDisablePeerAccess(id));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceCanAccessPeer(&out.i32, 0, id));
        REFUSED(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceCanAccessPeer(&out.i32, id, 0));
        /* The reference allows status 0 or 107000. */
        for (int j = 0; j < 2; j++) {
            reset_results();
            error = aclrtDevicePeerAccessStatus(j ? id : 0, j ? 0 : id, &out.i32);
            ck_assert_msg(error == PARAM ? out_untouched() : error == 0 && out.i32 == 0,
                          "aclrtDevicePeerAccessStatus of %d: %d", id, error);
        }
    }
}
END_TEST

START_TEST(peers)
{
    REFUSED(NULL_ARG, aclrtDeviceCanAccessPeer(&out.i32, 1, 1));
    REFUSED(NULL_ARG, aclrtDeviceEnablePeerAccess(0, 0));
    REFUSED(NULL_ARG, aclrtDeviceDisablePeerAccess(0));
    REFUSED(ACL_ERROR_FEATURE_UNSUPPORTED, aclrtDeviceEnablePeerAccess(1, 1));
    REFUSED(ACL_ERROR_FEATURE_UNSUPPORTED, aclrtDeviceEnablePeerAccess(1, UINT32_MAX));
}
END_TEST

START_TEST(memory_kinds)
{
    REFUSED(ACL_ERROR_RT_INVALID_MEMORY_TYPE, aclrtGetMemInfo(-1, &out.size[0], &out.size[1]));
    REFUSED(ACL_ERROR_RT_INVALID_MEMORY_TYPE, aclrtGetMemInfo(18, &out.size[0], &out.size[1]));
    REFUSED(ACL_ERROR_RT_INVALID_MEMORY_TYPE, aclrtGetMemInfo(INT_MAX, &out.size[0], &out.size[1]));
    REFUSED(ACL_ERROR_RT_INVALID_MEMORY_TYPE, aclrtGetMemInfo(INT_MIN, &out.size[0], &out.size[1]));
}
END_TEST

START_TEST(timeouts)
{
    static const int32_t bad[] = {0, -2, INT32_MIN};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int32_t timeout = bad[i];

        REFUSED(PARAM, aclrtSynchronizeStreamWithTimeout(stream, timeout));
        REFUSED(PARAM, aclrtSynchronizeStreamWithTimeout(NULL, timeout));
        REFUSED(PARAM, aclrtSynchronizeDeviceWithTimeout(timeout));
        REFUSED(PARAM, aclrtSynchronizeEventWithTimeout(event, timeout));
        REFUSED(PARAM, aclrtSynchronizeEventWithTimeout(ipc, timeout));
    }
    REFUSED(PARAM, aclrtStreamWaitEventWithTimeout(stream, event, -1));
    REFUSED(PARAM, aclrtStreamWaitEventWithTimeout(stream, event, INT32_MIN));
    OK(aclrtSynchronizeStreamWithTimeout(stream, INT32_MAX));
    OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
    OK(aclrtSynchronizeDeviceWithTimeout(INT32_MAX));
    OK(aclrtSynchronizeDeviceWithTimeout(-1));
    OK(aclrtSynchronizeEventWithTimeout(event, INT32_MAX));
    OK(aclrtSynchronizeEventWithTimeout(event, -1));
    OK(aclrtSetOpWaitTimeout(UINT32_MAX));
    OK(aclrtSetOpWaitTimeout(0));
}
END_TEST

/* The longest limits must not wrap into short ones: the stream stays blocked. */
START_TEST(longest_timeouts)
{
    aclrtStream blocked[4];
    aclrtEvent gate;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    for (int i = 0; i < 4; i++)
        OK(aclrtCreateStream(&blocked[i]));
    OK(aclrtStreamWaitEventWithTimeout(blocked[0], gate, INT32_MAX));
    OK(aclrtStreamWaitEventWithFlag(blocked[1], gate, INT32_MAX, 0));
    OK(aclrtStreamWaitEventWithFlag(blocked[2], gate, UINT32_MAX - 1, 0));
    OK(aclrtSetOpWaitTimeout(UINT32_MAX));
    OK(aclrtStreamWaitEvent(blocked[3], gate));
    for (int i = 0; i < 4; i++)
        REFUSED(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                aclrtSynchronizeStreamWithTimeout(blocked[i], 20));
    OK(aclrtRecordEvent(gate, NULL));
    for (int i = 0; i < 4; i++)
        OK(aclrtSynchronizeStreamWithTimeout(blocked[i], 10000));
}
END_TEST

START_TEST(flags_of_events)
{
    static const uint32_t bad_plain[] = {0,    0x11, 0x30,       0x29,      0x40,
                                         0x41, 0x80, 0x80000001, UINT32_MAX};
    static const uint32_t bad_ex[] = {0,    0x10, 0x20,       0x18,      0x41,
                                      0x48, 0x80, 0x80000001, UINT32_MAX};

    for (size_t i = 0; i < sizeof(bad_plain) / sizeof(bad_plain[0]); i++)
        REFUSED(PARAM, aclrtCreateEventWithFlag(&out.pointer, bad_plain[i]));
    for (size_t i = 0; i < sizeof(bad_ex) / sizeof(bad_ex[0]); i++)
        REFUSED(PARAM, aclrtCreateEventExWithFlag(&out.pointer, bad_ex[i]));
    REFUSED(NULL_ARG, aclrtRecordEventWithFlag(event, stream, 2));
    REFUSED(NULL_ARG, aclrtRecordEventWithFlag(event, stream, UINT32_MAX));
    REFUSED(NULL_ARG, aclrtStreamWaitEventWithFlag(stream, event, 0, 2));
    REFUSED(NULL_ARG, aclrtStreamWaitEventWithFlag(stream, event, 0, UINT32_MAX));
    REFUSED(NULL_ARG, aclrtStreamWaitEventWithFlag(stream, event, 1, ACL_EVENT_WAIT_EXTERNAL));
    REFUSED(NULL_ARG,
            aclrtStreamWaitEventWithFlag(stream, event, UINT32_MAX, ACL_EVENT_WAIT_EXTERNAL));
}
END_TEST

START_TEST(flags_of_streams)
{
    static const uint32_t bad[] = {0x21, 0x22, 0x24, 0x28, 0x30, 0x3f, UINT32_MAX};
    aclrtStream s;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        REFUSED(PARAM, aclrtCreateStreamWithConfig(&out.pointer, 0, bad[i]));
    OK(aclrtCreateStreamWithConfig(&s, UINT32_MAX, 0xffffff00));
    OK(aclrtCtxGetCurrentDefaultStream(&s));
    REFUSED(PARAM, aclrtDestroyStream(s));
    REFUSED(PARAM, aclrtDestroyStreamForce(s));
}
END_TEST

START_TEST(levels_of_errors)
{
    REFUSED(NULL_ARG, aclrtGetLastError(1));
    REFUSED(NULL_ARG, aclrtGetLastError(-1));
    REFUSED(NULL_ARG, aclrtPeekAtLastError(1));
    REFUSED(NULL_ARG, aclrtPeekAtLastError(INT_MAX));
}
END_TEST

START_TEST(delays)
{
    static const aclError bad[] = {-1, 1, 99999, 600000, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        REFUSED(PARAM, aclnpudLaunchDelay(0, bad[i], stream));
    REFUSED(PARAM, aclnpudLaunchDelay(3600000001, 0, stream));
    REFUSED(PARAM, aclnpudLaunchDelay(UINT64_MAX, 0, stream));
    OK(aclnpudLaunchDelay(3600000000, 0, stream));
    OK(aclrtDestroyStreamForce(stream));
}
END_TEST

START_TEST(sizes_of_allocations)
{
    static const size_t huge[] = {(size_t)1 << 40, (size_t)1 << 62, SIZE_MAX / 2, SIZE_MAX - 5000,
                                  SIZE_MAX - 64};

    for (size_t size = 0; size + 1 != 0; size = size == 0 ? SIZE_MAX - 63 : size + 1) {
        REFUSED(NULL_ARG, aclrtMalloc(&out.pointer, size, 0));
        REFUSED(NULL_ARG, aclrtMallocAlign32(&out.pointer, size, 0));
        REFUSED(NULL_ARG, aclrtMallocCached(&out.pointer, size, 0));
    }
    REFUSED(NULL_ARG, aclrtMalloc(&out.pointer, SIZE_MAX, 0));
    REFUSED(NULL_ARG, aclrtMallocHost(&out.pointer, 0));
    for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
        REFUSED(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&out.pointer, huge[i], 0));
        REFUSED(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&out.pointer, huge[i], 0));
        REFUSED(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocCached(&out.pointer, huge[i], 0));
        REFUSED(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&out.pointer, huge[i]));
    }
    OK(aclrtMalloc(&out.pointer, 1, (aclrtMemMallocPolicy)99)); /* acts like HUGE_FIRST */
    OK(aclrtFree(out.pointer));
    OK(aclrtMalloc(&out.pointer, 1, (aclrtMemMallocPolicy)-1));
    OK(aclrtFree(out.pointer));
}
END_TEST

START_TEST(wrong_frees)
{
    char *heap = malloc(64);

    REFUSED(PARAM, aclrtFree(device + 1));
    REFUSED(PARAM, aclrtFree(device + 4096));
    REFUSED(PARAM, aclrtFree(pinned));
    REFUSED(PARAM, aclrtFree(heap));
    REFUSED(PARAM, aclrtFree(pageable));
    REFUSED(PARAM, aclrtFree((void *)1));
    REFUSED(PARAM, aclrtFree((void *)-1));
    REFUSED(PARAM, aclrtFreeHost(pinned + 64));
    REFUSED(PARAM, aclrtFreeHost(device));
    REFUSED(PARAM, aclrtFreeHost(heap));
    REFUSED(PARAM, aclrtFreeHost((void *)-1));
    free(heap);
    OK(aclrtFree(device));
    REFUSED(PARAM, aclrtFree(device));
    OK(aclrtFreeHost(pinned));
    REFUSED(PARAM, aclrtFreeHost(pinned));
}
END_TEST

START_TEST(odd_addresses_are_pageable)
{
    void *odd[] = {(void *)1, (void *)-1, pageable, stream};

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        OK(aclrtPointerGetAttributes(odd[i], &out.attributes));
        ck_assert_int_eq(out.attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    }
}
END_TEST

/* Copies and fills: what is wrong, in the order in which it is looked at. */
START_TEST(copies)
{
    static const int kinds[] = {-1, 6, 7, 8, 99, INT_MAX, INT_MIN};

    OK(aclrtMemcpy(NULL, 0, NULL, 0, 99));
    OK(aclrtMemcpyAsync(NULL, 0, NULL, 0, 99, stream));
    OK(aclrtMemcpy(device, 64, device, 64, 0));
    OK(aclrtMemcpyAsync(device, 64, device, 64, 0, stream));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        REFUSED(NULL_ARG, aclrtMemcpy(device, 64, pinned, 64, kinds[i]));
        REFUSED(NULL_ARG, aclrtMemcpyAsync(device, 64, pinned, 64, kinds[i], stream));
    }
    REFUSED(PARAM, aclrtMemcpy(device, 0, pinned, 1, ACL_MEMCPY_DEFAULT));
    REFUSED(PARAM, aclrtMemcpy(device, 63, pinned, 64, ACL_MEMCPY_DEFAULT));
    REFUSED(PARAM, aclrtMemcpyAsync(device, 0, pinned, 1, ACL_MEMCPY_DEFAULT, stream));
    REFUSED(PARAM, aclrtMemcpyAsync(device, 63, pinned, 64, ACL_MEMCPY_DEFAULT, stream));
}
END_TEST

START_TEST(fills)
{
    OK(aclrtMemset(NULL, 0, 0, 0));
    OK(aclrtMemsetAsync(NULL, 0, 0, 0, stream));
    REFUSED(PARAM, aclrtMemset(device, 0, 0, 1));
    REFUSED(PARAM, aclrtMemset(device, 63, 0, 64));
    REFUSED(PARAM, aclrtMemsetAsync(device, 0, 0, 1, stream));
    REFUSED(PARAM, aclrtMemsetAsync(device, 63, 0, 64, stream));
}
END_TEST

/* What begins in an allocation and leaves it, also by so much that the sum wraps around. */
static const struct {
    size_t offset, count;
} beyond[] = {
    {0, 4097},
    {0, MIB},
    {4095, 2},
    {2000, 2500},
    {1, SIZE_MAX},
    {64, SIZE_MAX - 63},
    {4095, SIZE_MAX - 4094},
    {4095, SIZE_MAX - 4000},
    {4095, SIZE_MAX},
    {1, SIZE_MAX / 2},
    {0, SIZE_MAX},
};

START_TEST(ranges_that_leave_the_allocation)
{
    size_t offset = beyond[_i].offset, count = beyond[_i].count;
    char *far;

    OK(aclrtMallocHost((void **)&far, 2 * MIB));
    REFUSED(PARAM, aclrtMemcpy(device + offset, count, far, count, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(PARAM, aclrtMemcpy(far, count, device + offset, count, ACL_MEMCPY_DEVICE_TO_HOST));
    REFUSED(PARAM, aclrtMemcpyAsync(device + offset, count, far, count, ACL_MEMCPY_HOST_TO_DEVICE,
                                    stream));
    REFUSED(PARAM, aclrtMemcpyAsync(far, count, device + offset, count, ACL_MEMCPY_DEVICE_TO_HOST,
                                    stream));
    REFUSED(PARAM, aclrtMemset(device + offset, count, 0, count));
    REFUSED(PARAM, aclrtMemsetAsync(device + offset, count, 0, count, stream));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- a thread without context --- */

static void *call_unbound(void *arg)
{
    const char *name;
    void *bound_stream = stream;

    (void)arg;
    for (int i = 0; i < OF_STREAM_COUNT; i++) {
        reset_results();
        if (i == STREAM_AT_aclrtStreamGetId) {
            OK(aclrtStreamGetId(bound_stream, &out.i32));
            continue;
        }
        check_refused("acl", UNBOUND, call_of_stream(i, bound_stream, &name), __LINE__);
        if (i == STREAM_AT_aclrtDestroyStream || i == STREAM_AT_aclrtDestroyStreamForce)
            continue;
        reset_results();
        check_refused("acl", UNBOUND, call_of_stream(i, NULL, &name), __LINE__);
    }
    REFUSED(UNBOUND, aclrtStreamGetId(NULL, &out.i32));
    REFUSED(UNBOUND, aclrtCreateStream(&out.pointer));
    REFUSED(UNBOUND, aclrtCreateStreamWithConfig(&out.pointer, 0, 0));
    REFUSED(UNBOUND, aclrtCreateEvent(&out.pointer));
    REFUSED(UNBOUND, aclrtCreateEventWithFlag(&out.pointer, ACL_EVENT_SYNC));
    REFUSED(UNBOUND, aclrtCreateEventExWithFlag(&out.pointer, ACL_EVENT_SYNC));
    REFUSED(UNBOUND, aclrtCreateEventExWithFlag(&out.pointer, ACL_EVENT_IPC));
    REFUSED(UNBOUND, aclrtIpcOpenEventHandle(ipc_handle, &out.pointer));
    REFUSED(UNBOUND, aclrtGetEventAvailNum(&out.u32));
    REFUSED(UNBOUND, aclrtSynchronizeDevice());
    REFUSED(UNBOUND, aclrtSynchronizeDeviceWithTimeout(1));
    REFUSED(UNBOUND, aclrtGetDevice(&out.i32));
    REFUSED(UNBOUND, aclrtGetCurrentContext(&out.pointer));
    REFUSED(UNBOUND, aclrtCtxGetCurrentDefaultStream(&out.pointer));
    REFUSED(UNBOUND, aclrtGetMemInfo(ACL_HBM_MEM, &out.size[0], &out.size[1]));
    REFUSED(UNBOUND, aclrtDeviceEnablePeerAccess(1, 0));
    REFUSED(UNBOUND, aclrtDeviceDisablePeerAccess(1));
    REFUSED(UNBOUND, aclrtMalloc(&out.pointer, 64, 0));
    REFUSED(UNBOUND, aclrtMallocAlign32(&out.pointer, 64, 0));
    REFUSED(UNBOUND, aclrtMallocCached(&out.pointer, 64, 0));
    REFUSED(UNBOUND, aclrtMallocHost(&out.pointer, 64));
    REFUSED(UNBOUND, aclrtMemcpy(device, 64, pinned, 64, ACL_MEMCPY_DEFAULT));
    REFUSED(UNBOUND, aclrtMemset(device, 64, 0, 64));
    return NULL;
}

/* What needs none works there. */
static void *call_without_need(void *arg)
{
    (void)arg;
    OK(aclrtQueryEventStatus(event, &out.recorded_status));
    OK(aclrtQueryEvent(level, &out.event_status));
    OK(aclrtQueryEventWaitStatus(level, &out.wait_status));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtSynchronizeEventWithTimeout(event, 1));
    OK(aclrtEventElapsedTime(&out.ms, event, event));
    OK(aclrtEventGetTimestamp(event, &out.u64));
    OK(aclrtIpcGetEventHandle(ipc, &out.handle));
    OK(aclrtGetDeviceCount(&out.u32));
    OK(aclrtGetRunMode(&out.run_mode));
    OK(aclrtQueryDeviceStatus(0, &out.device_status));
    OK(aclrtDeviceCanAccessPeer(&out.i32, 0, 1));
    OK(aclrtDevicePeerAccessStatus(0, 1, &out.i32));
    OK(aclrtGetPrimaryCtxState(0, NULL, &out.i32));
    OK(aclrtDeviceGetBareTgid(&out.i32));
    ck_assert_int_eq(out.i32, getpid());
    ck_assert_ptr_nonnull(aclrtGetSocName());
    OK(aclrtPointerGetAttributes(device, &out.attributes));
    OK(aclrtSetOpWaitTimeout(0));
    OK(aclrtDestroyEvent(event));
    OK(aclrtFree(device));
    OK(aclrtFreeHost(pinned));
    return NULL;
}

START_TEST(thread_without_context)
{
    thread_call(call_unbound, NULL);
    thread_call(call_without_need, NULL);
}
END_TEST

/* --- a stream of another context --- */

static bool accepts_foreign(int which)
{
    switch (which) {
    case STREAM_AT_aclrtSynchronizeStream:
    case STREAM_AT_aclrtSynchronizeStreamWithTimeout:
    case STREAM_AT_aclrtStreamQuery:
    case STREAM_AT_aclrtStreamGetId:
    case STREAM_AT_aclrtStreamGetPriority:
    case STREAM_AT_aclrtStreamGetFlags:
        return true;
    default:
        return false;
    }
}

/* _i: 0 an explicit context of the same device, 1 another device. */
START_TEST(stream_of_another_context)
{
    aclrtStream foreign = stream;
    aclrtContext other;
    const char *name;

    if (_i == 0)
        OK(aclrtCreateContext(&other, 0));
    else
        OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&stream));
    for (int i = 0; i < OF_STREAM_COUNT; i++) {
        aclError error;

        reset_results();
        error = call_of_stream(i, foreign, &name);
        if (accepts_foreign(i))
            ck_assert_msg(error == 0, "%s: %d", name, error);
        else
            check_refused(name, ACL_ERROR_RT_STREAM_CONTEXT, error, __LINE__);
    }
}
END_TEST

/* --- what npud does not implement --- */

START_TEST(unsupported_functions_say_so)
{
    static const char *const names[] = {
        "aclrtSnapShotProcessLock",
        "aclrtSnapShotProcessUnlock",
        "aclrtMemMapSetLink",
        "aclrtReserveMemAddressNoUCMemory",
    };

    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        aclError (*function)(void *, void *, void *, void *, void *, void *);

        *(void **)&function = dlsym(RTLD_DEFAULT, names[i]);
        ck_assert_msg(function, "%s is not there", names[i]);
        reset_results();
        check_refused(names[i], ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                      function(&out, &out, &out, &out, &out, &out), __LINE__);
        reset_results();
        check_refused(names[i], ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                      function(NULL, NULL, NULL, NULL, NULL, NULL), __LINE__);
    }
    ck_assert_int_eq(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
}
END_TEST

/* --- npud killed --- */

/* What needs npud, or tells of the state of a device that is gone. */
static void expect_lost(void)
{
    const char *name;
    aclError error;

    for (int i = 0; i < OF_STREAM_COUNT; i++) {
        if (i == STREAM_AT_aclrtDestroyStream || i == STREAM_AT_aclrtDestroyStreamForce ||
            i == STREAM_AT_aclrtStreamGetId || i == STREAM_AT_aclrtStreamGetPriority ||
            i == STREAM_AT_aclrtStreamGetFlags)
            continue; /* the first two below, the others are the library's own knowledge */
        reset_results();
        error = call_of_stream(i, stream, &name);
        check_refused(name, LOST, error, __LINE__);
    }
    REFUSED(LOST, aclrtSynchronizeDevice());
    REFUSED(LOST, aclrtSynchronizeDeviceWithTimeout(1000));
    REFUSED(LOST, aclrtSynchronizeEvent(event));
    REFUSED(LOST, aclrtSynchronizeEventWithTimeout(ipc, 1000));
    REFUSED(LOST, aclrtQueryEvent(level, &out.event_status));
    REFUSED(LOST, aclrtQueryEventStatus(event, &out.recorded_status));
    REFUSED(LOST, aclrtQueryEventStatus(ipc, &out.recorded_status));
    REFUSED(LOST, aclrtQueryEventWaitStatus(level, &out.wait_status));
    REFUSED(LOST, aclrtEventElapsedTime(&out.ms, event, event));
    REFUSED(LOST, aclrtEventGetTimestamp(event, &out.u64));
    REFUSED(LOST, aclrtRecordEvent(ipc, stream));
    REFUSED(LOST, aclrtStreamWaitEvent(stream, ipc));
    REFUSED(LOST, aclrtIpcGetEventHandle(ipc, &out.handle));
    REFUSED(LOST, aclrtIpcOpenEventHandle(ipc_handle, &out.pointer));
    REFUSED(LOST, aclrtCreateStream(&out.pointer));
    REFUSED(LOST, aclrtCreateStreamWithConfig(&out.pointer, 0, 0));
    REFUSED(LOST, aclrtCreateEvent(&out.pointer));
    REFUSED(LOST, aclrtCreateEventWithFlag(&out.pointer, ACL_EVENT_SYNC));
    REFUSED(LOST, aclrtCreateEventExWithFlag(&out.pointer, ACL_EVENT_SYNC));
    REFUSED(LOST, aclrtCreateEventExWithFlag(&out.pointer, ACL_EVENT_IPC));
    REFUSED(LOST, aclrtCreateContext(&out.pointer, 0));
    REFUSED(LOST, aclrtMalloc(&out.pointer, 64, 0));
    REFUSED(LOST, aclrtMallocHost(&out.pointer, 64));
    REFUSED(LOST, aclrtGetMemInfo(ACL_HBM_MEM, &out.size[0], &out.size[1]));
    REFUSED(LOST, aclrtGetDeviceCount(&out.u32));
    REFUSED(LOST, aclrtQueryDeviceStatus(0, &out.device_status));
    REFUSED(LOST, aclrtDeviceCanAccessPeer(&out.i32, 0, 1));
    REFUSED(LOST, aclrtSetDevice(0));
    REFUSED(LOST, aclrtSetDevice(1));
}

/* Synchronous copies and fills would only write to memory that no device has any more. */
START_TEST(memory_after_npud_was_killed)
{
    npud_kill();
    REFUSED(LOST, aclrtGetMemInfo(ACL_HBM_MEM, &out.size[0], &out.size[1]));
    REFUSED(LOST, aclrtMemcpy(device, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(LOST, aclrtMemset(device, 64, 0, 64));
}
END_TEST

/*
 * A missing argument is still reported as such. For all other faults the end of the session is the
 * answer, because a wrong handle looks like one that the end has made invalid. Releasing goes as
 * far as it can.
 */
static void expect_lost_or_no_argument(void)
{
    REFUSED(NULL_ARG, aclrtCreateStream(NULL));
    REFUSED(NULL_ARG, aclrtRecordEvent(NULL, stream));
    REFUSED(LOST, aclrtSynchronizeStream((void *)1));
    REFUSED(LOST, aclrtSynchronizeStreamWithTimeout(stream, 0));
    REFUSED(LOST, aclrtSynchronizeEvent((void *)1));
    REFUSED(LOST, aclrtFree(pageable));
    REFUSED(LOST, aclrtDestroyStream(stream));
    REFUSED(LOST, aclrtDestroyEvent(event));
    REFUSED(LOST, aclrtDestroyEvent(ipc));
    REFUSED(LOST, aclrtDestroyEvent(event));
    REFUSED(LOST, aclrtFree(device));
    REFUSED(LOST, aclrtFree(device));
    REFUSED(LOST, aclrtFreeHost(pinned));
    REFUSED(LOST, aclrtResetDevice(0));
    REFUSED(LOST, aclrtResetDeviceForce(0));
}

static void *call_lost_unbound(void *arg)
{
    (void)arg;
    REFUSED(LOST, aclrtCreateStream(&out.pointer));
    REFUSED(LOST, aclrtSetDevice(0));
    REFUSED(LOST, aclrtSynchronizeEvent(event));
    return NULL;
}

START_TEST(after_npud_was_killed)
{
    npud_kill();
    /* One request, so that the library knows. */
    REFUSED(LOST, aclrtGetMemInfo(ACL_HBM_MEM, &out.size[0], &out.size[1]));
    expect_lost();
    thread_call(call_lost_unbound, NULL);
    expect_lost_or_no_argument();
    OK(aclFinalize());
}
END_TEST

/* With work outstanding, and everything that would wait for it. */
START_TEST(after_npud_was_killed_at_work)
{
    aclrtContext other;
    uint64_t start = now_ns();

    OK(aclnpudLaunchDelay(60000000, 0, stream));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtCreateContext(&other, 0));
    OK(aclnpudLaunchDelay(60000000, 0, NULL));
    npud_kill();
    REFUSED(LOST, aclrtSynchronizeDevice());
    REFUSED(LOST, aclrtSynchronizeStream(NULL));
    REFUSED(LOST, aclrtDestroyContext(other));
    OK(aclrtSetCurrentContext(context));
    REFUSED(LOST, aclrtSynchronizeEvent(event));
    REFUSED(LOST, aclrtSynchronizeEvent(ipc));
    REFUSED(LOST, aclrtMemcpyAsync(device, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    REFUSED(LOST, aclrtDestroyStreamForce(stream));
    REFUSED(LOST, aclrtResetDeviceForce(0));
    ck_assert_uint_lt(now_ns() - start, UINT64_C(10000000000));
}
END_TEST

/* --- */

static void add_nulls(Suite *s)
{
    TCase *t = suite_case(s, "null", 60, set_up_test, npud_teardown);

    tcase_add_test(t, null_of_devices_and_contexts);
    tcase_add_test(t, null_of_streams);
    tcase_add_test(t, null_of_events);
    tcase_add_test(t, null_of_memory);
    tcase_add_test(t, null_of_helpers);
    tcase_add_test(t, odd_numbers_for_helpers);
}

static void add_handles(Suite *s)
{
    TCase *t = suite_case(s, "handles", 60, handle_setup, npud_teardown);

    tcase_add_test(t, handles_of_another_kind);
    tcase_add_test(t, destroyed_handles);
    tcase_add_test(t, handle_of_a_stream_that_is_being_destroyed);
    tcase_add_test(t, handles_of_places_taken_again);
    tcase_add_test(t, garbage_handles);
    tcase_add_test(t, damaged_handles);
    tcase_add_test(t, thread_without_context);
    tcase_add_loop_test(t, stream_of_another_context, 0, 2);
    tcase_add_test(t, after_npud_was_killed);
    tcase_add_test(t, memory_after_npud_was_killed);
    tcase_add_test(t, after_npud_was_killed_at_work);
    t = suite_case(s, "handles, npud only", 60, npud_setup, npud_teardown);
    tcase_add_test(t, handles_before_anything);
    t = suite_case(s, "handles, two processes", 60, NULL, npud_teardown);
    tcase_add_test(t, handles_of_another_process);
}

static void add_values(Suite *s)
{
    TCase *t = suite_case(s, "values", 60, set_up_test, npud_teardown);

    tcase_add_test(t, device_ids);
    tcase_add_test(t, peers);
    tcase_add_test(t, memory_kinds);
    tcase_add_test(t, timeouts);
    tcase_add_test(t, longest_timeouts);
    tcase_add_test(t, flags_of_events);
    tcase_add_test(t, flags_of_streams);
    tcase_add_test(t, levels_of_errors);
    tcase_add_test(t, delays);
    tcase_add_test(t, sizes_of_allocations);
    tcase_add_test(t, wrong_frees);
    tcase_add_test(t, odd_addresses_are_pageable);
    tcase_add_test(t, copies);
    tcase_add_test(t, fills);
    tcase_add_loop_test(t, ranges_that_leave_the_allocation, 0,
                        (int)(sizeof(beyond) / sizeof(beyond[0])));
    tcase_add_test(t, unsupported_functions_say_so);
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("bad input");

    add_nulls(s);
    add_handles(s);
    add_values(s);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
