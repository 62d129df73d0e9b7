/*
 * Streams apart from their tasks: attributes, configuration, state callbacks, limits, time limits,
 * and the worked cases of the reference.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

static aclrtStream stream;

static void set_up_test(void)
{
    npud_setup();
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
}

/* --- worked cases: those that are about more than one other test's subject --- */

START_TEST(worked_cases)
{
    aclrtStreamStatus status;
    uint32_t priority;
    aclrtStream s, on0;

    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&s));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(NULL));
    OK(aclrtSynchronizeStream(NULL));
    OK(aclrtCreateStream(&s));
    OK(aclrtStreamQuery(s, &status));
    ck_assert_int_eq(status, ACL_STREAM_STATUS_COMPLETE);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(s, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(s, -2));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDestroyStream(NULL));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, s));
    FAILS_SAYING(ACL_ERROR_RT_AICORE_EXCEPTION, "failed: ACL_ERROR_RT_AICORE_EXCEPTION",
                 aclrtSynchronizeStream(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtCreateStream(&on0));
    OK(aclrtSetDevice(1));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(on0));
    OK(aclrtSynchronizeStream(on0));
    OK(aclrtCreateStreamWithConfig(&s, 9, 0));
    OK(aclrtStreamGetPriority(s, &priority));
    ck_assert_uint_eq(priority, 7);
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyStream(on0));
}
END_TEST

/* --- attributes --- */

static void set_attribute(aclrtStreamAttr attribute, uint32_t value)
{
    aclrtStreamAttrValue v = {.overflowSwitch = value};

    OK(aclrtSetStreamAttribute(stream, attribute, &v));
}

static uint32_t get_attribute(aclrtStream s, aclrtStreamAttr attribute)
{
    aclrtStreamAttrValue v = {.reserve = {77, 77, 77, 77}};

    OK(aclrtGetStreamAttribute(s, attribute, &v));
    return v.overflowSwitch;
}

static uint32_t priority_in_npud(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    uint32_t priority = 99;
    int32_t id;

    OK(aclrtStreamGetId(stream, &id));
    for (size_t i = 0; i < r->n_streams; i++)
        if (r->streams[i]->stream == id)
            priority = r->streams[i]->priority;
    npud__report__free_unpacked(r, NULL);
    return priority;
}

/* The context's, under another name. */
START_TEST(failure_mode_is_an_attribute)
{
    aclrtStreamAttrValue v = {.failureMode = 77};
    aclrtStream other;

    OK(aclrtCreateStream(&other));
    OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &v));
    ck_assert_uint_eq(v.failureMode, ACL_CONTINUE_ON_FAILURE);
    v.failureMode = ACL_STOP_ON_FAILURE;
    OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &v));
    v.failureMode = 77;
    OK(aclrtGetStreamAttribute(other, ACL_STREAM_ATTR_FAILURE_MODE, &v));
    ck_assert_uint_eq(v.failureMode, ACL_STOP_ON_FAILURE);
    v.failureMode = ACL_CONTINUE_ON_FAILURE;
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &v));
    /* which is what is in force */
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, other));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(other));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtDestroyStream(other));
}
END_TEST

START_TEST(attributes_come_back)
{
    aclrtStream other;
    uint32_t value;

    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK), 0);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG), 0);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO), 0);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_PRIORITY), 0);
    set_attribute(ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, 1);
    set_attribute(ACL_STREAM_ATTR_USER_CUSTOM_TAG, 0xdeadbeef);
    set_attribute(ACL_STREAM_ATTR_CACHE_OP_INFO, 1);
    set_attribute(ACL_STREAM_ATTR_PRIORITY, 5);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK), 1);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG), 0xdeadbeef);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO), 1);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_PRIORITY), 5);
    ck_assert_uint_eq(priority_in_npud(), 5);
    OK(aclrtStreamGetPriority(stream, &value));
    ck_assert_uint_eq(value, 5);
    set_attribute(ACL_STREAM_ATTR_PRIORITY, 1000);
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_PRIORITY), 7);
    /* the switch has two names */
    OK(aclrtGetStreamOverflowSwitch(stream, &value));
    ck_assert_uint_eq(value, 1);
    OK(aclrtSetStreamOverflowSwitch(stream, 0));
    ck_assert_uint_eq(get_attribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK), 0);
    /* a new stream in the same place has none of it */
    OK(aclrtDestroyStream(stream));
    OK(aclrtCreateStream(&other));
    ck_assert_uint_eq(get_attribute(other, ACL_STREAM_ATTR_USER_CUSTOM_TAG), 0);
    ck_assert_uint_eq(get_attribute(other, ACL_STREAM_ATTR_CACHE_OP_INFO), 0);
    ck_assert_uint_eq(get_attribute(other, ACL_STREAM_ATTR_PRIORITY), 0);
    /* the default stream has some of its own */
    OK(aclrtSetStreamOverflowSwitch(NULL, 1));
    ck_assert_uint_eq(get_attribute(NULL, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK), 1);
    ck_assert_uint_eq(get_attribute(other, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK), 0);
}
END_TEST

START_TEST(attribute_errors)
{
    aclrtStreamAttrValue v = {.overflowSwitch = 2};
    uint32_t flag;

    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, NULL));
    for (int i = -1; i < 100; i += i == 0 ? 7 : 1) {
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(stream, (aclrtStreamAttr)i, &v));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetStreamAttribute(stream, (aclrtStreamAttr)i, &v));
    }
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &v));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(NULL, ACL_STREAM_ATTR_PRIORITY, &v));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtSetStreamOverflowSwitch(stream, 2));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetStreamOverflowSwitch(stream, NULL));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtPersistentTaskClean(stream));
    OK(aclrtSetDevice(1));
    v.overflowSwitch = 1;
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT,
          aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT,
          aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtSetStreamOverflowSwitch(stream, 1));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtGetStreamOverflowSwitch(stream, &flag));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtPersistentTaskClean(stream));
    OK(aclrtResetDevice(1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL,
          aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL,
          aclrtGetStreamAttribute(NULL, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
}
END_TEST

/* --- state callbacks: what was called, in order --- */

#define CALLS_MAX 32

static struct call {
    char kind; /* 's': a stream, 'd': a device */
    int state;
    aclrtStream stream;
    int32_t device;
    const char *args;
    pthread_t thread;
    bool usable; /* the stream's id could be asked for */
} calls[CALLS_MAX];
static int n_calls;

static struct call *note_call(char kind, int state, const char *args)
{
    struct call *c = &calls[n_calls++];

    ck_assert_int_lt(n_calls, CALLS_MAX);
    *c = (struct call){.kind = kind, .state = state, .args = args, .thread = pthread_self()};
    return c;
}

static void on_stream(aclrtStream s, aclrtStreamState state, void *args)
{
    struct call *c = note_call('s', state, args);
    int32_t id;

    c->stream = s;
    c->usable = aclrtStreamGetId(s, &id) == 0;
}

static void on_device(int32_t device, aclrtDeviceState state, void *args)
{
    note_call('d', state, args)->device = device;
}

/* The oldest call that was not looked at yet. */
static struct call take_call(void)
{
    struct call first = calls[0];

    ck_assert_int_gt(n_calls, 0);
    n_calls--;
    memmove(calls, calls + 1, (size_t)n_calls * sizeof(calls[0]));
    ck_assert(pthread_equal(first.thread, pthread_self()));
    return first;
}

static aclrtStream expect_stream(int state, const char *args)
{
    struct call c = take_call();

    ck_assert_int_eq(c.kind, 's');
    ck_assert_int_eq(c.state, state);
    ck_assert_str_eq(c.args, args);
    ck_assert(c.usable);
    return c.stream;
}

static void expect_device(int state, int32_t device)
{
    struct call c = take_call();

    ck_assert_int_eq(c.kind, 'd');
    ck_assert_int_eq(c.state, state);
    ck_assert_int_eq(c.device, device);
}

#define CREATE_POST ACL_RT_STREAM_STATE_CREATE_POST
#define DESTROY_PRE ACL_RT_STREAM_STATE_DESTROY_PRE

START_TEST(stream_callbacks)
{
    aclrtStream s, again;

    OK(aclrtRegStreamStateCallback("one", on_stream, "1"));
    OK(aclrtRegStreamStateCallback("two", on_stream, "2"));
    OK(aclrtCreateStream(&s));
    ck_assert_ptr_eq(expect_stream(CREATE_POST, "1"), s);
    ck_assert_ptr_eq(expect_stream(CREATE_POST, "2"), s);
    OK(aclrtDestroyStream(s));
    ck_assert_ptr_eq(expect_stream(DESTROY_PRE, "1"), s);
    ck_assert_ptr_eq(expect_stream(DESTROY_PRE, "2"), s);
    OK(aclrtRegStreamStateCallback("one", NULL, NULL));
    OK(aclrtCreateStreamWithConfig(&again, 3, 0));
    ck_assert_ptr_eq(expect_stream(CREATE_POST, "2"), again);
    OK(aclrtDestroyStreamForce(again));
    ck_assert_ptr_eq(expect_stream(DESTROY_PRE, "2"), again);
    /* what fails is no state */
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(again));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_HUGE));
    ck_assert_int_eq(n_calls, 0);
}
END_TEST

START_TEST(default_streams_have_states)
{
    aclrtContext context;
    aclrtStream def, mine;

    OK(aclrtRegStreamStateCallback("one", on_stream, "1"));
    OK(aclrtRegDeviceStateCallback("dev", on_device, "d"));
    OK(aclrtSetDevice(1));
    OK(aclrtCtxGetCurrentDefaultStream(&def));
    expect_device(ACL_RT_DEVICE_STATE_SET_PRE, 1);
    ck_assert_ptr_eq(expect_stream(CREATE_POST, "1"), def);
    expect_device(ACL_RT_DEVICE_STATE_SET_POST, 1);
    OK(aclrtSetDevice(1)); /* not opened anew */
    expect_device(ACL_RT_DEVICE_STATE_SET_POST, 1);
    OK(aclrtCreateStream(&mine));
    expect_stream(CREATE_POST, "1");
    OK(aclrtResetDevice(1)); /* not the last */
    ck_assert_int_eq(n_calls, 0);
    OK(aclrtResetDevice(1));
    expect_device(ACL_RT_DEVICE_STATE_RESET_PRE, 1);
    ck_assert_ptr_eq(expect_stream(DESTROY_PRE, "1"), def);
    ck_assert_ptr_eq(expect_stream(DESTROY_PRE, "1"), mine);
    expect_device(ACL_RT_DEVICE_STATE_RESET_POST, 1);
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(1));
    ck_assert_int_eq(n_calls, 0);
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCtxGetCurrentDefaultStream(&def));
    ck_assert_ptr_eq(expect_stream(CREATE_POST, "1"), def);
    OK(aclrtDestroyContext(context));
    ck_assert_ptr_eq(expect_stream(DESTROY_PRE, "1"), def);
    OK(aclrtSetDevice(1));
    OK(aclrtSetDevice(1));
    n_calls = 0;
    OK(aclrtResetDeviceForce(1));
    expect_device(ACL_RT_DEVICE_STATE_RESET_PRE, 1);
    expect_stream(DESTROY_PRE, "1");
    expect_device(ACL_RT_DEVICE_STATE_RESET_POST, 1);
    ck_assert_int_eq(n_calls, 0);
    OK(aclrtRegDeviceStateCallback("dev", NULL, NULL));
    OK(aclrtRegStreamStateCallback("one", NULL, NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtResetDevice(1));
    ck_assert_int_eq(n_calls, 0);
}
END_TEST

START_TEST(registering_errors)
{
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtRegStreamStateCallback(NULL, on_stream, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtRegDeviceStateCallback(NULL, on_device, NULL));
    OK(aclrtRegStreamStateCallback("unknown", NULL, NULL));
    OK(aclrtRegDeviceStateCallback("unknown", NULL, NULL));
    OK(aclrtRegStreamStateCallback("name", on_stream, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRegStreamStateCallback("name", on_stream, NULL));
    OK(aclrtRegDeviceStateCallback("name", on_device, NULL)); /* a name of another kind */
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRegDeviceStateCallback("name", on_device, NULL));
    OK(aclrtRegStreamStateCallback("name", NULL, NULL));
    OK(aclrtRegStreamStateCallback("name", on_stream, NULL));
}
END_TEST

/* Uses the API, and removes itself and the next. */
static void on_stream_once(aclrtStream s, aclrtStreamState state, void *args)
{
    note_call('s', state, args)->usable = true;
    OK(aclnpudLaunchDelay(0, 0, s));
    OK(aclrtSynchronizeStream(s));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRegStreamStateCallback("b", on_stream, "b"));
    OK(aclrtRegStreamStateCallback("a", NULL, NULL));
    OK(aclrtRegStreamStateCallback("b", NULL, NULL));
    OK(aclrtRegStreamStateCallback("d", on_stream, "d"));
}

START_TEST(callbacks_may_use_the_api)
{
    aclrtStream s;

    OK(aclrtRegStreamStateCallback("a", on_stream_once, "a"));
    OK(aclrtRegStreamStateCallback("b", on_stream, "b"));
    OK(aclrtRegStreamStateCallback("c", on_stream, "c"));
    OK(aclrtCreateStream(&s));
    expect_stream(CREATE_POST, "a");
    expect_stream(CREATE_POST, "c"); /* b is removed, d came later */
    ck_assert_int_eq(n_calls, 0);
    OK(aclrtDestroyStream(s));
    expect_stream(DESTROY_PRE, "c");
    expect_stream(DESTROY_PRE, "d");
    ck_assert_int_eq(n_calls, 0);
}
END_TEST

static void destroy_again(aclrtStream s, aclrtStreamState state, void *args)
{
    (void)args;
    if (state == DESTROY_PRE)
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(s));
    n_calls++;
}

/* Also when its callback destroys the device under it. */
static void reset_device(aclrtStream s, aclrtStreamState state, void *args)
{
    (void)s;
    (void)args;
    if (state == DESTROY_PRE && n_calls++ == 0)
        OK(aclrtResetDeviceForce(0));
}

START_TEST(a_stream_goes_once)
{
    aclrtStream s;

    OK(aclrtCreateStream(&s));
    OK(aclrtRegStreamStateCallback("a", destroy_again, NULL));
    OK(aclrtDestroyStream(s));
    ck_assert_int_eq(n_calls, 1);
    OK(aclrtRegStreamStateCallback("a", NULL, NULL));
    OK(aclrtRegStreamStateCallback("b", reset_device, NULL));
    n_calls = 0;
    OK(aclrtDestroyStream(stream));
    ck_assert_int_eq(n_calls, 2); /* and the default stream's */
}
END_TEST

/* --- limits on cores --- */

#define CUBE   ACL_RT_DEV_RES_CUBE_CORE
#define VECTOR ACL_RT_DEV_RES_VECTOR_CORE

static uint32_t device_limit(int32_t device, aclrtDevResLimitType type)
{
    uint32_t value;

    OK(aclrtGetDeviceResLimit(device, type, &value));
    return value;
}

static uint32_t thread_limit(aclrtDevResLimitType type)
{
    uint32_t value;

    OK(aclrtGetResInCurrentThread(type, &value));
    return value;
}

static void *limit_of_another_thread(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    return (void *)(uintptr_t)thread_limit(CUBE);
}

START_TEST(limits)
{
    uint32_t cubes = device_limit(0, CUBE), vectors = device_limit(0, VECTOR), value;
    aclrtStream other;
    pthread_t thread;
    void *got;

    ck_assert_uint_gt(cubes, 4);
    OK(aclrtSetDeviceResLimit(0, CUBE, 4));
    ck_assert_uint_eq(device_limit(0, CUBE), 4);
    ck_assert_uint_eq(device_limit(0, VECTOR), vectors);
    ck_assert_uint_eq(thread_limit(CUBE), 4);
    OK(aclrtCreateStream(&other));
    OK(aclrtSetStreamResLimit(stream, CUBE, cubes)); /* above the device's */
    OK(aclrtGetStreamResLimit(stream, CUBE, &value));
    ck_assert_uint_eq(value, cubes);
    OK(aclrtGetStreamResLimit(stream, VECTOR, &value));
    ck_assert_uint_eq(value, vectors);
    ck_assert_uint_eq(thread_limit(CUBE), 4); /* not used yet */
    OK(aclrtUseStreamResInCurrentThread(stream));
    ck_assert_uint_eq(thread_limit(CUBE), cubes);
    OK(aclrtSetStreamResLimit(other, CUBE, 3));
    OK(aclrtUseStreamResInCurrentThread(other)); /* the last wins */
    ck_assert_uint_eq(thread_limit(CUBE), 3);
    OK(aclrtUnuseStreamResInCurrentThread(stream)); /* not the one in use */
    ck_assert_uint_eq(thread_limit(CUBE), 3);
    pthread_create(&thread, NULL, limit_of_another_thread, NULL);
    pthread_join(thread, &got);
    ck_assert_uint_eq((uintptr_t)got, 4);
    OK(aclrtResetStreamResLimit(other));
    ck_assert_uint_eq(thread_limit(CUBE), 4);
    OK(aclrtSetStreamResLimit(other, CUBE, 2));
    ck_assert_uint_eq(thread_limit(CUBE), 2);
    OK(aclrtDestroyStream(other)); /* and its limit with it */
    ck_assert_uint_eq(thread_limit(CUBE), 4);
    OK(aclrtUseStreamResInCurrentThread(NULL));
    OK(aclrtSetStreamResLimit(NULL, VECTOR, 1));
    ck_assert_uint_eq(thread_limit(VECTOR), 1);
    OK(aclrtUnuseStreamResInCurrentThread(NULL));
    ck_assert_uint_eq(thread_limit(VECTOR), vectors);
    OK(aclrtResetDeviceResLimit(0));
    ck_assert_uint_eq(device_limit(0, CUBE), cubes);
}
END_TEST

START_TEST(limit_errors)
{
    uint32_t cubes = device_limit(0, CUBE), value;

    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceResLimit(0, CUBE, cubes + 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamResLimit(stream, CUBE, cubes + 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamResLimit(stream, CUBE, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceResLimit(0, (aclrtDevResLimitType)2, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetDeviceResLimit(0, (aclrtDevResLimitType)-1, &value));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamResLimit(stream, (aclrtDevResLimitType)2, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtGetStreamResLimit(stream, (aclrtDevResLimitType)2, &value));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetResInCurrentThread((aclrtDevResLimitType)2, &value));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceResLimit(0, CUBE, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetStreamResLimit(stream, CUBE, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetResInCurrentThread(CUBE, NULL));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDeviceResLimit(-1, CUBE, 1));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceResLimit(9, CUBE, &value));
    FAILS(ACL_ERROR_RT_DEV_SETUP_ERROR, aclrtSetDeviceResLimit(1, CUBE, 1));
    FAILS(ACL_ERROR_RT_DEV_SETUP_ERROR, aclrtResetDeviceResLimit(1));
    OK(aclrtSetDevice(1));
    OK(aclrtSetDeviceResLimit(1, CUBE, 1));
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(1)); /* opened anew, without it */
    ck_assert_uint_eq(device_limit(1, CUBE), cubes);
    OK(aclrtResetDevice(1));
    OK(aclrtSetStreamResLimit(stream, CUBE, 1)); /* an explicit stream needs no context */
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetStreamResLimit(NULL, CUBE, 1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetResInCurrentThread(CUBE, &value));
    OK(aclrtResetDeviceForce(0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtUseStreamResInCurrentThread(stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtUnuseStreamResInCurrentThread(stream));
}
END_TEST

/* --- how long a kernel may run --- */

static uint32_t execute_timeout(void)
{
    uint32_t ms;

    OK(aclrtGetOpExecuteTimeout(&ms));
    return ms;
}

START_TEST(execute_timeouts)
{
    uint64_t step, actual, start;

    ck_assert_uint_eq(execute_timeout(), UINT32_MAX);
    OK(aclrtGetOpTimeOutInterval(&step));
    ck_assert_uint_gt(step, 0);
    OK(aclrtSetOpExecuteTimeOutV2(1, &actual));
    ck_assert_uint_eq(actual, step);
    OK(aclrtSetOpExecuteTimeOutV2(step, &actual));
    ck_assert_uint_eq(actual, step);
    OK(aclrtSetOpExecuteTimeOutV2(step + 1, &actual));
    ck_assert_uint_eq(actual, 2 * step);
    OK(aclrtSetOpExecuteTimeOutV2(0, &actual));
    ck_assert_uint_eq(actual, 254 * step);
    OK(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual));
    ck_assert_uint_eq(actual, 254 * step);
    OK(aclrtSetOpExecuteTimeOut(3));
    ck_assert_uint_eq(execute_timeout(), (3000000 + step - 1) / step * step / 1000);
    OK(aclrtSetOpExecuteTimeOut(0));
    ck_assert_uint_eq(execute_timeout(), 254 * step / 1000);
    OK(aclrtSetOpExecuteTimeOutWithMs(1));
    ck_assert_uint_eq(execute_timeout(), step / 1000);
    start = now_ns();
    OK(aclnpudLaunchDelay(3600000000, 0, stream));
    FAILS(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(stream));
    ck_assert_uint_ge(now_ns() - start, step * 1000);
    OK(aclnpudLaunchDelay(step / 10, 0, stream)); /* in time */
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtSetOpExecuteTimeOutV2(1, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetOpTimeOutInterval(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetOpExecuteTimeout(NULL));
    OK(aclrtResetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetOpExecuteTimeOutV2(1, &actual));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetOpTimeOutInterval(&step));
    OK(aclrtSetOpExecuteTimeOut(1)); /* these need none */
    ck_assert_uint_eq(execute_timeout(), 1000);
}
END_TEST

/* --- configuration --- */

START_TEST(streams_from_a_configuration)
{
    aclrtStreamConfigHandle *handle = aclrtCreateStreamConfigHandle();
    size_t size = 4096, flag = ACL_STREAM_FAST_LAUNCH;
    uint32_t priority = 6, value;
    void *work = &size;
    aclrtStream s;

    ck_assert_ptr_nonnull(handle);
    OK(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_WORK_ADDR_PTR, &work, sizeof(work)));
    OK(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_WORK_SIZE, &size, sizeof(size)));
    OK(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flag, sizeof(flag)));
    OK(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, sizeof(priority)));
    ck_assert_ptr_eq(handle->workptr, work);
    ck_assert_uint_eq(handle->workSize, size);
    OK(aclrtCreateStreamV2(&s, handle));
    OK(aclrtStreamGetPriority(s, &value));
    ck_assert_uint_eq(value, 6);
    OK(aclrtStreamGetFlags(s, &value));
    ck_assert_uint_eq(value, ACL_STREAM_FAST_LAUNCH);
    OK(aclrtDestroyStream(s));
    OK(aclrtCreateStreamV2(&s, NULL));
    OK(aclnpudLaunchDelay(0, 0, s));
    OK(aclrtSynchronizeStream(s));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCreateStreamV2(NULL, handle));
    priority = 8;
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, sizeof(priority)));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flag, sizeof(uint32_t)));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamConfigOpt(handle, (aclrtStreamConfigAttr)4, &flag, sizeof(flag)));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamConfigOpt(NULL, ACL_RT_STREAM_FLAG, &flag, sizeof(flag)));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, NULL, sizeof(flag)));
    ck_assert_uint_eq(handle->priority, 6);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDestroyStreamConfigHandle(NULL));
    OK(aclrtDestroyStreamConfigHandle(handle));
}
END_TEST

static const char *const few_streams[] = {"--set=limits.streams=10", NULL};

static void setup_few(void)
{
    npud_start(few_streams);
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
}

/* As many as it says can be made, and not one more. */
START_TEST(available_streams)
{
    uint32_t n, left;
    aclrtStream s = NULL;
    void *memory;

    OK(aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, 1, 0, 1));
    OK(aclrtGetStreamAvailableNum(&n));
    /* Two are ours, and one is the library's, which copies from and to strict devices. */
    ck_assert_uint_eq(n, npud_is_strict() ? 7 : 8);
    for (uint32_t i = 0; i < n; i++)
        OK(aclrtCreateStream(&s));
    OK(aclrtGetStreamAvailableNum(&left));
    ck_assert_uint_eq(left, 0);
    FAILS(ACL_ERROR_RT_NO_STREAM_RESOURCE, aclrtCreateStream(&stream));
    OK(aclrtDestroyStream(s));
    OK(aclrtGetStreamAvailableNum(&left));
    ck_assert_uint_eq(left, 1);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetStreamAvailableNum(NULL));
    OK(aclrtResetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetStreamAvailableNum(&left));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stream");
    TCase *bare = suite_case(s, "from the beginning", 60, npud_setup, npud_teardown);
    TCase *all = suite_case(s, "streams", 60, set_up_test, npud_teardown);
    TCase *few = suite_case(s, "few streams", 60, setup_few, npud_teardown);

    tcase_add_test(bare, worked_cases);
    tcase_add_test(all, attributes_come_back);
    tcase_add_test(all, failure_mode_is_an_attribute);
    tcase_add_test(all, attribute_errors);
    tcase_add_test(all, stream_callbacks);
    tcase_add_test(all, default_streams_have_states);
    tcase_add_test(all, registering_errors);
    tcase_add_test(all, callbacks_may_use_the_api);
    tcase_add_test(all, a_stream_goes_once);
    tcase_add_test(all, limits);
    tcase_add_test(all, limit_errors);
    tcase_add_test(all, execute_timeouts);
    tcase_add_test(all, streams_from_a_configuration);
    tcase_add_test(few, available_streams);
    return run_suite(s);
}
