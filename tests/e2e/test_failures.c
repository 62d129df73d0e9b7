/*
 * After a failed task: the two failure modes, row by row, and the ways to discard tasks: abort of a
 * stream, of a task, of a device.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */
#define CODE     ACL_ERROR_RT_AICORE_EXCEPTION
#define OTHER    ACL_ERROR_RT_AICORE_TIMEOUT
#define HOUR     UINT64_C(3600000000) /* us */
#define ABORTED  ACL_ERROR_RT_STREAM_ABORT

static aclrtStream failing, other;
static aclrtContext context;
static _Atomic unsigned n_exceptions;
static _Atomic uint32_t first_task;

static void count_exception(aclrtExceptionInfo *info)
{
    if (n_exceptions++ == 0)
        first_task = aclrtGetTaskIdFromExceptionInfo(info);
}

static void call_wrongly(aclrtExceptionInfo *info)
{
    (void)info;
    n_exceptions++;
    aclrtDestroyEvent((aclrtEvent)1);
}

static void open_device(void)
{
    streams_open(&failing, &other);
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtSetExceptionInfoCallback(count_exception));
}

static aclrtEvent make_event(uint32_t flags)
{
    aclrtEvent event;

    if (flags)
        OK(aclrtCreateEventWithFlag(&event, flags));
    else
        OK(aclrtCreateEvent(&event));
    return event;
}

static aclrtEvent hold_stream(aclrtStream s)
{
    aclrtEvent gate = make_event(ACL_EVENT_SYNC);

    OK(aclrtStreamWaitEvent(s, gate));
    return gate;
}

static int32_t id_of(aclrtStream s)
{
    int32_t id;

    OK(aclrtStreamGetId(s, &id));
    return id;
}

/* What npuctl says of a stream of device 0. */
static bool stream_is(aclrtStream s, const char *state)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    bool is = false;

    for (size_t i = 0; i < r->n_streams; i++)
        is |= r->streams[i]->stream == id_of(s) && r->streams[i]->device == 0 &&
              strcmp(r->streams[i]->state, state) == 0;
    npud__report__free_unpacked(r, NULL);
    return is;
}

static void await_state(aclrtStream s, const char *state)
{
    EVENTUALLY(stream_is(s, state), "never %s", state);
}

/* A thread that calls a function which sleeps. */
struct sleeper {
    pthread_t thread;
    const char *call;
    aclError (*fn)(void *handle);
    void *handle;
    aclError result;
};

static void *sleeper_main(void *arg)
{
    struct sleeper *s = arg;

    OK(aclrtSetCurrentContext(context));
    s->result = s->fn(s->handle);
    return NULL;
}

static bool thread_sleeps(const char *call)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool found = false;

    for (size_t i = 0; i < r->n_waits; i++)
        found |= strcmp(r->waits[i]->call, call) == 0;
    npud__report__free_unpacked(r, NULL);
    return found;
}

static void sleeper_start(struct sleeper *s, const char *call, aclError (*fn)(void *), void *handle)
{
    uint64_t give_up = now_ns() + GUARD_NS;

    *s = (struct sleeper){.call = call, .fn = fn, .handle = handle};
    ck_assert_int_eq(pthread_create(&s->thread, NULL, sleeper_main, s), 0);
    while (!thread_sleeps(call))
        ck_assert_msg(now_ns() < give_up, "%s does not sleep", call);
}

static aclError sleeper_result(struct sleeper *s)
{
    pthread_join(s->thread, NULL);
    return s->result;
}

/* --- modes: what the call says --- */

START_TEST(test_mode_call)
{
    aclrtStream device_only;
    aclrtContext second;

    open_device();
    OK(aclrtSetStreamFailureMode(failing, ACL_CONTINUE_ON_FAILURE));
    OK(aclrtSetStreamFailureMode(failing, 2)); /* bit 0 alone counts */
    OK(aclrtSetStreamFailureMode(failing, ACL_STOP_ON_FAILURE));
    OK(aclrtSetStreamFailureMode(failing, ACL_STOP_ON_FAILURE));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtSetStreamFailureMode(failing, ACL_CONTINUE_ON_FAILURE));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetStreamFailureMode(other, 0));
    OK(aclrtCreateStreamWithConfig(&device_only, 0, ACL_STREAM_DEVICE_USE_ONLY));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetStreamFailureMode(device_only, 1));
    OK(aclrtCreateContext(&second, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtSetStreamFailureMode(failing, 1));
    OK(aclrtSetStreamFailureMode(NULL, 0)); /* another context, another mode */
    OK(aclrtDestroyContext(second));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetStreamFailureMode(failing, 1));
}
END_TEST

/* --- continue --- */

START_TEST(test_continue)
{
    aclrtEvent event = NULL;
    aclrtEventRecordedStatus status;
    uint64_t us;

    open_device();
    event = make_event(ACL_EVENT_TIME_LINE);
    for (int i = 0; i < 3; i++)
        OK(aclnpudLaunchDelay(0, i < 2 ? CODE : OTHER, failing));
    OK(aclnpudLaunchDelay(0, 0, failing));
    OK(aclrtRecordEvent(event, failing));
    OK(aclnpudLaunchDelay(0, 0, other));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtEventGetTimestamp(event, &us));
    OK(aclrtSynchronizeStream(other));
    FAILS(OTHER, aclrtSynchronizeStream(failing)); /* the latest */
    ck_assert_uint_eq(n_exceptions, 3);
    OK(aclrtSynchronizeStream(failing));
    OK(aclnpudLaunchDelay(0, 0, failing));
    OK(aclrtSynchronizeStream(failing));
}
END_TEST

/* --- stop --- */

/* Fail in `failing` when `gate` is opened, with work in front and behind. */
static void stop_on(aclrtStream s)
{
    OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
}

#define EXPECT_LAST_ERROR(code) ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), code)

/* A callback runs in the call that fails, or beside it. */
START_TEST(the_last_error_is_not_that_of_a_callback)
{
    open_device();
    OK(aclrtSetExceptionInfoCallback(call_wrongly));
    for (unsigned i = 1; i <= 20; i++) {
        OK(aclnpudLaunchDelay(0, CODE, failing));
        if (i % 2)
            FAILS(CODE, aclrtSynchronizeStream(failing));
        else
            FAILS(CODE, aclrtSynchronizeDevice());
        ck_assert_int_eq(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), CODE);
        EXPECT_LAST_ERROR(CODE);
        ck_assert_uint_eq(n_exceptions, i);
    }
}
END_TEST

START_TEST(test_stop_rows)
{
    aclrtEvent before, behind, gate, more;
    aclrtEventRecordedStatus status;
    aclrtStreamStatus stream_status;
    aclrtEventStatus old_status;
    char byte = 0;
    void *memory;
    float ms;

    open_device();
    stop_on(_i == 0 ? failing : other);
    OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, 64, 0, 64));
    before = make_event(0);
    behind = make_event(0);
    more = make_event(ACL_EVENT_TIME_LINE);
    gate = hold_stream(failing);
    OK(aclrtRecordEvent(before, failing));
    OK(aclnpudLaunchDelay(0, CODE, failing));
    OK(aclrtRecordEvent(behind, failing));
    OK(aclnpudLaunchDelay(0, OTHER, failing));
    OK(aclrtMemsetAsync(memory, 64, 1, 64, failing));
    OK(aclrtRecordEvent(more, failing));
    OK(aclnpudLaunchDelay(HOUR, 0, other));
    OK(aclrtRecordEvent(gate, NULL));
    /* The stream, and every other one of the context, again and again. */
    for (int i = 0; i < 3; i++) {
        FAILS(CODE, aclrtSynchronizeStream(failing));
        EXPECT_LAST_ERROR(CODE);
        FAILS(CODE, aclrtSynchronizeStreamWithTimeout(other, 1000));
        FAILS(CODE, aclrtSynchronizeStream(NULL));
        FAILS(CODE, aclrtSynchronizeDevice());
    }
    ck_assert_uint_eq(n_exceptions, 1); /* the first failure; the others do not run */
    OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_int_eq(byte, 0);
    /* Nothing new. */
    FAILS(CODE, aclnpudLaunchDelay(0, 0, failing));
    FAILS(CODE, aclnpudLaunchDelay(0, 0, other));
    FAILS(CODE, aclnpudLaunchDelay(0, 0, NULL));
    FAILS(CODE, aclrtRecordEvent(before, other));
    FAILS(CODE, aclrtResetEvent(before, other));
    FAILS(CODE, aclrtStreamWaitEvent(other, before));
    FAILS(CODE, aclrtMemsetAsync(memory, 64, 1, 64, other));
    FAILS(CODE, aclrtStreamQuery(other, &stream_status));
    OK(aclrtStreamAbort(failing)); /* there is nothing to discard, and they stay stopped */
    OK(aclrtStreamStop(failing));
    FAILS(CODE, aclrtSynchronizeStream(failing));
    /* Records before and behind. */
    OK(aclrtQueryEventStatus(before, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtSynchronizeEvent(before));
    FAILS(CODE, aclrtQueryEventStatus(behind, &status));
    FAILS(CODE, aclrtQueryEvent(behind, &old_status));
    FAILS(CODE, aclrtSynchronizeEvent(behind));
    FAILS(CODE, aclrtSynchronizeEventWithTimeout(more, 1000));
    FAILS(CODE, aclrtEventElapsedTime(&ms, more, more));
    ck_assert(stream_is(failing, "stopped") && stream_is(other, "stopped"));
    /* The way out. */
    OK(aclrtDestroyStream(other));
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&failing));
    OK(aclrtCreateStream(&other));
    OK(aclnpudLaunchDelay(0, CODE, failing));
    FAILS(CODE, aclrtSynchronizeStream(failing));
    OK(aclrtSynchronizeStream(failing)); /* continue again */
    OK(aclrtSynchronizeStream(other));
}
END_TEST

static aclError event_fn(void *event)
{
    return aclrtSynchronizeEvent(event);
}

static aclError stream_fn(void *s)
{
    return aclrtSynchronizeStream(s);
}

static aclError device_fn(void *nothing)
{
    (void)nothing;
    return aclrtSynchronizeDevice();
}

/* Each sleeping thread wakes up with the code, whichever call it sleeps in. */
START_TEST(test_stop_sleepers)
{
    struct sleeper s[4];
    aclrtEvent behind, gate;

    open_device();
    stop_on(other);
    behind = make_event(0);
    gate = hold_stream(failing);
    OK(aclnpudLaunchDelay(0, CODE, failing));
    OK(aclrtRecordEvent(behind, failing));
    OK(aclnpudLaunchDelay(HOUR, 0, other));
    sleeper_start(&s[0], "aclrtSynchronizeEvent", event_fn, behind);
    sleeper_start(&s[1], "aclrtSynchronizeStream", stream_fn, other);
    sleeper_start(&s[2], "aclrtSynchronizeDevice", device_fn, NULL);
    OK(aclrtRecordEvent(gate, NULL));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(sleeper_result(&s[i]), CODE);
    ck_assert_uint_eq(n_exceptions, 1);
}
END_TEST

static aclError fill_fn(void *s)
{
    aclError r;

    do {
        r = aclnpudLaunchDelay(0, 0, s);
    } while (r == 0);
    return r;
}

START_TEST(test_stop_full_ring)
{
    struct sleeper s;
    aclrtEvent gate;

    open_device();
    stop_on(other);
    hold_stream(other);
    gate = hold_stream(failing);
    OK(aclnpudLaunchDelay(0, CODE, failing));
    sleeper_start(&s, "aclnpudLaunchDelay", fill_fn, other);
    OK(aclrtRecordEvent(gate, NULL));
    ck_assert_int_eq(sleeper_result(&s), CODE);
}
END_TEST

/*
 * Streams of another context that wait for the stopped one fail with its code; those that do not,
 * and continue, notice nothing.
 */
START_TEST(test_stop_other_context)
{
    aclrtStream waits[2], free_stream;
    aclrtEvent behind, level, gate;
    aclrtContext second;

    open_device();
    stop_on(failing);
    behind = make_event(0);
    level = make_event(ACL_EVENT_SYNC);
    gate = hold_stream(failing);
    OK(aclnpudLaunchDelay(0, CODE, failing));
    OK(aclrtRecordEvent(behind, failing));
    OK(aclrtRecordEvent(level, failing));
    OK(aclrtCreateContext(&second, _i));
    OK(aclrtCreateStream(&waits[0]));
    OK(aclrtCreateStream(&waits[1]));
    OK(aclrtCreateStream(&free_stream));
    OK(aclrtStreamWaitEvent(waits[0], behind));
    OK(aclrtStreamWaitEvent(waits[1], level));
    OK(aclnpudLaunchDelay(0, 0, free_stream));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtRecordEvent(gate, NULL));
    FAILS(CODE, aclrtSynchronizeStream(failing));
    OK(aclrtSetCurrentContext(second));
    for (int i = 0; i < 2; i++) {
        FAILS(CODE, aclrtSynchronizeStream(waits[i]));
        OK(aclrtSynchronizeStream(waits[i])); /* continue mode */
    }
    OK(aclrtSynchronizeStream(free_stream));
    FAILS(CODE, aclrtStreamWaitEvent(free_stream, behind));
    FAILS(CODE, aclrtStreamWaitEvent(free_stream, level));
    /* Recorded anew here, both are as good as ever. */
    OK(aclrtRecordEvent(behind, free_stream));
    OK(aclrtRecordEvent(level, free_stream));
    OK(aclrtStreamWaitEvent(waits[0], behind));
    OK(aclrtStreamWaitEvent(waits[1], level));
    ck_assert_int_eq(aclrtSynchronizeDevice(),
                     _i == 0 ? CODE : 0); /* of all contexts of the device */
    OK(aclrtSynchronizeEvent(behind));
    OK(aclrtDestroyContext(second));
}
END_TEST

/* A context stays stopped for streams that are made later, and is as new when it is made anew. */
START_TEST(test_stop_new_streams)
{
    aclrtContext second;
    aclrtStream late;

    open_device();
    OK(aclrtCreateContext(&second, 0));
    stop_on(NULL);
    OK(aclnpudLaunchDelay(0, CODE, NULL));
    FAILS(CODE, aclrtSynchronizeStream(NULL));
    OK(aclrtCreateStream(&late));
    FAILS(CODE, aclnpudLaunchDelay(0, 0, late));
    FAILS(CODE, aclrtSynchronizeStream(late));
    OK(aclrtDestroyStream(late));
    FAILS(CODE, aclrtSynchronizeStream(NULL));
    OK(aclrtDestroyContext(second));
    OK(aclrtCreateContext(&second, 0));
    OK(aclrtCreateStream(&late));
    OK(aclnpudLaunchDelay(0, CODE, late));
    FAILS(CODE, aclrtSynchronizeStream(late));
    OK(aclnpudLaunchDelay(0, 0, late));
    OK(aclrtSynchronizeStream(late));
    OK(aclrtDestroyContext(second));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtSynchronizeStream(NULL));
}
END_TEST

/* A remark is no failure; a wait over its limit is one. */
START_TEST(test_stop_what)
{
    aclrtEvent gate;

    open_device();
    stop_on(failing);
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_END_OF_SEQUENCE, failing));
    ck_assert_int_eq(aclrtSynchronizeStream(failing), ACL_ERROR_RT_END_OF_SEQUENCE);
    OK(aclnpudLaunchDelay(0, 0, failing));
    OK(aclrtSynchronizeStream(failing));
    gate = make_event(ACL_EVENT_SYNC);
    OK(aclrtStreamWaitEventWithTimeout(failing, gate, 1));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(failing));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(failing));
    ck_assert_uint_eq(n_exceptions, 0);
}
END_TEST

#define COPIES 16
#define LARGE  ((size_t)16 << 20)

/*
 * Guards against copies that begin when the program knows that their streams have stopped, and has
 * unmapped its memory: one thread of the library does them all, and comes late to the last.
 */
START_TEST(test_stop_copies)
{
    void *page[COPIES], *device, *at;
    aclrtStream s;

    open_device();
    stop_on(failing);
    OK(aclrtMalloc(&device, LARGE, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < COPIES; i++) {
        page[i] = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(page[i], MAP_FAILED);
        OK(aclrtHostRegister(page[i], LARGE, ACL_HOST_REGISTER_MAPPED, &at));
        OK(aclrtCreateStream(&s));
        OK(aclrtMemcpyAsync(page[i], LARGE, device, LARGE, ACL_MEMCPY_DEVICE_TO_HOST, s));
    }
    OK(aclnpudLaunchDelay(0, CODE, failing));
    FAILS(CODE, aclrtSynchronizeStream(failing));
    for (int i = COPIES; i-- > 0;) {
        OK(aclrtHostUnregister(page[i]));
        ck_assert_int_eq(munmap(page[i], LARGE), 0);
    }
    OK(aclrtResetDeviceForce(0));
}
END_TEST

static _Atomic unsigned n_called, n_dropped;

static void count_called(void *data)
{
    (void)data;
    n_called++;
}

static void count_dropped(void *data)
{
    (void)data;
    n_dropped++;
}

/*
 * Callbacks behind the failure run (0 continue) or never do, and are told so (1 stop); the same for
 * those that are discarded (2).
 */
START_TEST(test_callback)
{
    aclrtStream host;
    aclrtEvent gate;

    open_device();
    OK(aclrtCreateStream(&host));
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), failing));
    if (_i == 1)
        stop_on(failing);
    gate = hold_stream(failing);
    OK(aclnpudLaunchDelay(0, CODE, failing));
    OK(aclnpudLaunchCallbackWithDrop(count_called, count_dropped, NULL, ACL_CALLBACK_BLOCK,
                                     failing));
    OK(aclrtStreamWaitEvent(host, gate));
    OK(aclnpudLaunchDelay(_i == 1 ? HOUR : 0, 0, host));
    OK(aclrtLaunchHostFunc(host, count_called, NULL));
    if (_i == 2) {
        OK(aclrtStreamAbort(failing));
        OK(aclrtStreamAbort(host));
        ck_assert_uint_eq(n_dropped, 1);
        OK(aclnpudLaunchDelay(0, CODE, failing));
    }
    OK(aclrtRecordEvent(gate, NULL));
    if (_i == 0)
        OK(aclrtProcessReport(-1));
    FAILS(CODE, aclrtSynchronizeStream(failing));
    if (_i == 1) {
        FAILS(CODE, aclrtLaunchCallback(count_called, NULL, ACL_CALLBACK_BLOCK, failing));
        FAILS(CODE, aclrtLaunchHostFunc(host, count_called, NULL));
    } else {
        OK(aclrtSynchronizeStream(host));
        OK(aclrtLaunchCallback(count_called, NULL, ACL_CALLBACK_NO_BLOCK, failing));
        OK(aclrtProcessReport(-1));
        OK(aclrtLaunchHostFunc(host, count_called, NULL));
        OK(aclrtSynchronizeStream(host));
    }
    ck_assert_uint_eq(n_called, _i == 0 ? 4 : _i == 1 ? 0 : 2);
    OK(aclrtDestroyStream(failing));
    OK(aclrtDestroyStream(host));
    ck_assert_uint_eq(n_dropped, _i > 0);
}
END_TEST

/* --- another process that waits behind the failure --- */

static struct turn to_peer, to_us;
static aclrtIpcEventHandle *shared_handle;

static int run_peer(void *arg)
{
    aclError expected = *(aclError *)arg;
    aclrtStream s, t;
    aclrtEvent event;

    turn_await(&to_peer);
    streams_open(&s, &t);
    OK(aclrtIpcOpenEventHandle(*shared_handle, &event));
    OK(aclrtStreamWaitEvent(s, event));
    turn_tell(&to_us);
    if (aclrtSynchronizeEvent(event) != expected)
        return 1;
    if (aclrtSynchronizeStream(s) != expected)
        return 2;
    turn_tell(&to_us);
    turn_await(&to_peer);
    /* The event is as good as before. */
    OK(aclrtRecordEvent(event, t));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtStreamWaitEvent(s, event));
    OK(aclrtSynchronizeStream(s));
    return 0;
}

/* _i: 0 stop, 1 abort of the stream, 2 abort of the device, 3 destroyed by force */
START_TEST(test_peer)
{
    static aclError expected = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    aclrtEventRecordedStatus status;
    aclrtEvent event, gate;
    pid_t pid;

    shared_handle = mmap(NULL, sizeof(*shared_handle), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared_handle, MAP_FAILED);
    turn_init(&to_peer);
    turn_init(&to_us);
    pid = child_start(run_peer, &expected);
    open_device();
    if (_i == 0)
        stop_on(failing);
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, shared_handle));
    gate = hold_stream(failing);
    OK(aclnpudLaunchDelay(0, CODE, failing));
    OK(aclrtRecordEvent(event, failing));
    turn_tell(&to_peer);
    turn_await(&to_us);
    switch (_i) {
    case 0:
        OK(aclrtRecordEvent(gate, NULL));
        FAILS(CODE, aclrtSynchronizeEvent(event));
        FAILS(CODE, aclrtQueryEventStatus(event, &status));
        break;
    case 1:
        OK(aclrtStreamAbort(failing));
        break;
    case 2:
        OK(aclrtDeviceTaskAbort(0, 0));
        break;
    default:
        OK(aclrtDestroyStreamForce(failing));
    }
    turn_await(&to_us);
    turn_tell(&to_peer);
    child_expect_ok(pid);
    ck_assert_uint_eq(n_exceptions, _i == 0);
}
END_TEST

/* --- abort of a stream --- */

START_TEST(test_abort)
{
    aclrtEventRecordedStatus status;
    struct sleeper s[2];
    aclrtEvent behind;
    aclrtContext second;

    open_device();
    behind = make_event(0);
    hold_stream(failing);
    OK(aclnpudLaunchDelay(0, CODE, failing));
    OK(aclrtRecordEvent(behind, failing));
    OK(aclrtStreamWaitEvent(other, behind));
    sleeper_start(&s[0], "aclrtSynchronizeEvent", event_fn, behind);
    sleeper_start(&s[1], "aclrtSynchronizeStream", stream_fn, failing);
    await_state(other, "waiting");
    OK(aclrtStreamAbort(failing));
    ck_assert_int_eq(sleeper_result(&s[0]), ABORTED);
    ck_assert_int_eq(sleeper_result(&s[1]), ABORTED);
    FAILS(ABORTED, aclrtSynchronizeStream(other)); /* it waited for what is not done */
    OK(aclrtSynchronizeStream(failing));
    OK(aclrtQueryEventStatus(behind, &status));
    ck_assert_uint_eq(n_exceptions, 0);
    /* Usable again. */
    for (int i = 0; i < 100; i++) {
        OK(aclnpudLaunchDelay(HOUR, 0, failing));
        OK(aclrtStreamAbort(failing));
        OK(aclnpudLaunchDelay(0, 0, failing));
        OK(aclrtRecordEvent(behind, failing));
        OK(aclrtSynchronizeEvent(behind));
        OK(aclrtSynchronizeStream(failing));
    }
    OK(aclnpudLaunchDelay(0, CODE, failing));
    FAILS(CODE, aclrtSynchronizeStream(failing));
    OK(aclnpudLaunchDelay(HOUR, 0, NULL));
    OK(aclrtStreamAbort(NULL)); /* the default stream */
    OK(aclrtSynchronizeStream(NULL));
    OK(aclrtCreateContext(&second, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtStreamAbort(failing));
    OK(aclrtDestroyContext(second));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtDestroyStream(failing));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamAbort(failing));
}
END_TEST

/* A submitter waits for room in the ring, with the stream locked. */
START_TEST(test_abort_full_ring)
{
    struct sleeper s;

    open_device();
    hold_stream(failing);
    sleeper_start(&s, "aclnpudLaunchDelay", fill_fn, failing);
    OK(aclrtStreamAbort(failing));
    ck_assert_int_eq(sleeper_result(&s), ABORTED);
    OK(aclrtSynchronizeStream(failing));
}
END_TEST

#define SUBMITTERS 3

static _Atomic bool over;

static void *submit_on(void *arg)
{
    aclrtStream s = arg;

    OK(aclrtSetCurrentContext(context));
    while (!atomic_load(&over)) {
        aclrtEvent e;
        aclError r = aclnpudLaunchDelay(0, 0, s);

        ck_assert_msg(r == 0 || r == ABORTED, "%d", r);
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
        r = aclrtRecordEvent(e, s);
        ck_assert_msg(r == 0 || r == ABORTED, "%d", r);
        r = aclrtSynchronizeEvent(e); /* executed or discarded: never left pending */
        ck_assert_msg(r == 0 || r == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "%d", r);
        OK(aclrtDestroyEvent(e));
    }
    return NULL;
}

/* Submission at the same moment: what is taken is executed or discarded, and not lost. */
START_TEST(test_abort_race)
{
    pthread_t t[SUBMITTERS];

    open_device();
    for (int i = 0; i < SUBMITTERS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, submit_on, failing), 0);
    for (int i = 0; i < 2000; i++)
        OK(aclrtStreamAbort(failing));
    atomic_store(&over, true);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(t[i], NULL);
    OK(aclrtSynchronizeStream(failing));
    OK(aclnpudLaunchDelay(0, 0, failing));
    OK(aclrtSynchronizeStream(failing));
}
END_TEST

/* --- stop of a task --- */

START_TEST(test_stop_task)
{
    aclrtContext second;
    aclrtEvent gate;
    char byte = 0;
    void *memory;

    open_device();
    OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclnpudLaunchDelay(HOUR, 0, failing));
    OK(aclrtMemsetAsync(memory, 64, 1, 64, failing));
    OK(aclrtStreamStop(failing));
    FAILS(ABORTED, aclrtSynchronizeStream(failing));
    OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_int_eq(byte, 1);
    OK(aclrtSynchronizeStream(failing));
    gate = hold_stream(failing);
    await_state(failing, "waiting");
    OK(aclrtStreamStop(failing));
    FAILS(ABORTED, aclrtSynchronizeStream(failing));
    OK(aclrtRecordEvent(gate, other)); /* no stream waits for it now */
    OK(aclrtStreamStop(failing));      /* nothing to stop */
    OK(aclrtSynchronizeStream(failing));
    ck_assert_uint_eq(n_exceptions, 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamStop(NULL));
    OK(aclrtCreateContext(&second, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtStreamStop(failing));
    OK(aclrtDestroyContext(second));
}
END_TEST

/* --- abort of a device --- */

static unsigned n_pre, n_post;
static aclError inside;

static int32_t on_abort(int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t timeout,
                        void *args)
{
    ck_assert_int_eq(device, 0);
    ck_assert_uint_eq(timeout, 0);
    ck_assert_ptr_eq(args, &n_pre);
    inside = aclnpudLaunchDelay(0, 0, failing);
    if (stage == ACL_RT_DEVICE_TASK_ABORT_PRE)
        n_pre++;
    else
        n_post++;
    return 0;
}

static int32_t refuse_abort(int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t timeout,
                            void *args)
{
    (void)device;
    (void)stage;
    (void)timeout;
    (void)args;
    return 77;
}

START_TEST(test_device_abort)
{
    aclrtEventRecordedStatus status;
    aclrtStream elsewhere;
    struct sleeper s;
    aclrtEvent behind;

    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&elsewhere));
    OK(aclnpudLaunchDelay(1000, 0, elsewhere));
    open_device();
    behind = make_event(0);
    OK(aclrtSetDeviceTaskAbortCallback("a", on_abort, &n_pre));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceTaskAbortCallback("a", on_abort, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtSetDeviceTaskAbortCallback(NULL, on_abort, NULL));
    OK(aclrtSetDeviceTaskAbortCallback("unknown", NULL, NULL));
    OK(aclnpudLaunchDelay(HOUR, 0, failing));
    OK(aclrtRecordEvent(behind, failing));
    OK(aclnpudLaunchDelay(HOUR, 0, other));
    OK(aclnpudLaunchDelay(HOUR, 0, NULL));
    sleeper_start(&s, "aclrtSynchronizeStream", stream_fn, other);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceTaskAbort(0, 2160001));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceTaskAbort(9, 0));
    OK(aclrtDeviceTaskAbort(0, 0));
    ck_assert_int_eq(sleeper_result(&s), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    ck_assert_int_eq(inside, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    ck_assert_uint_eq(n_pre, 1);
    ck_assert_uint_eq(n_post, 1);
    OK(aclrtQueryEventStatus(behind, &status)); /* as if never recorded */
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEvent(other, behind));
    OK(aclrtSynchronizeDevice());
    OK(aclnpudLaunchDelay(0, 0, failing));
    OK(aclrtRecordEvent(behind, failing));
    OK(aclrtStreamWaitEvent(other, behind));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(elsewhere));
    ck_assert_uint_eq(n_exceptions, 0);
    OK(aclrtSetDeviceTaskAbortCallback("a", NULL, NULL));
    OK(aclrtSetDeviceTaskAbortCallback("b", refuse_abort, NULL));
    OK(aclrtSetDeviceTaskAbortCallback("c", on_abort, &n_pre));
    OK(aclnpudLaunchDelay(20000, 0, failing));
    ck_assert_int_eq(aclrtDeviceTaskAbort(0, 0), 77);
    ck_assert_uint_eq(n_pre, 1);
    OK(aclrtSynchronizeStream(failing)); /* not discarded */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failures");
    TCase *c = suite_case(suite, "modes", 60, npud_setup, npud_teardown);

    tcase_add_test(c, the_last_error_is_not_that_of_a_callback);
    tcase_add_test(c, test_mode_call);
    tcase_add_test(c, test_continue);
    tcase_add_loop_test(c, test_stop_rows, 0, 2);
    tcase_add_test(c, test_stop_sleepers);
    tcase_add_test(c, test_stop_full_ring);
    tcase_add_loop_test(c, test_stop_other_context, 0, 2);
    tcase_add_test(c, test_stop_new_streams);
    tcase_add_test(c, test_stop_what);
    tcase_add_test(c, test_stop_copies);
    tcase_add_loop_test(c, test_callback, 0, 3);
    tcase_add_loop_test(c, test_peer, 0, 4);
    c = suite_case(suite, "abort", 60, npud_setup, npud_teardown);
    tcase_add_test(c, test_abort);
    tcase_add_test(c, test_abort_full_ring);
    tcase_add_test(c, test_abort_race);
    tcase_add_test(c, test_stop_task);
    tcase_add_test(c, test_device_abort);
    return run_suite(suite);
}
