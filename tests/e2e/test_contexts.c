/*
 * Devices, contexts and streams: the worked cases of the interface's reference, default streams,
 * peer access, visible devices, memory information, and what a reset takes with it.
 *
 * Skipped under TSan: the test asks one call after the other; the threads of npud and of the
 * library meet in the same ways in test_ipc_order, test_queue, the model and the soak.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "tests/common/moment.h"

#define MIB ((size_t)1 << 20)

static void set_up_test(void)
{
    npud_setup();
    OK(aclInit(NULL));
}

/* --- helpers --- */

static int current_device(void)
{
    int32_t device = -1;

    OK(aclrtGetDevice(&device));
    return device;
}

static aclrtContext current_context(void)
{
    aclrtContext context;

    OK(aclrtGetCurrentContext(&context));
    return context;
}

static aclrtStream new_stream(void)
{
    aclrtStream s;

    OK(aclrtCreateStream(&s));
    return s;
}

static bool is_recorded(aclrtEvent event)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(event, &status));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

static int is_active(int32_t device)
{
    int32_t active = -1;

    OK(aclrtGetPrimaryCtxState(device, NULL, &active));
    return active;
}

/* The calling thread has no usable context. */
static void expect_unbound(void)
{
    aclrtContext context;
    aclrtStream s = (aclrtStream)0x5a5a;
    int32_t device;

    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&s));
    ck_assert_ptr_eq(s, (aclrtStream)0x5a5a);
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&context));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
}

/* A second thread that takes turns with the test: T2 of the worked cases. */
static struct turn to_t2, to_t1;
static pthread_t t2;

static void t2_start(void *(*fn)(void *arg), void *arg)
{
    turn_init(&to_t2);
    turn_init(&to_t1);
    ck_assert_int_eq(pthread_create(&t2, NULL, fn, arg), 0);
    turn_await(&to_t1);
}

static void t2_go_on(void)
{
    turn_tell(&to_t2);
    pthread_join(t2, NULL);
}

/* What T2 does between its first part and its second. */
static void t2_pause(void)
{
    turn_tell(&to_t1);
    turn_await(&to_t2);
}

/* --- devices and contexts, one thread --- */

START_TEST(fresh_thread_has_nothing)
{
    expect_unbound();
}
END_TEST

START_TEST(set_count_is_a_count)
{
    OK(aclrtSetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtResetDevice(0));
    new_stream();
    ck_assert_int_eq(is_active(0), 1);
    OK(aclrtResetDevice(0));
    ck_assert_int_eq(is_active(0), 0);
    expect_unbound();
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(0));
}
END_TEST

START_TEST(reset_without_set)
{
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(1));
}
END_TEST

START_TEST(force_drops_the_whole_count)
{
    for (int i = 0; i < 2; i++)
        OK(aclrtSetDevice(0));
    OK(aclrtResetDevice(0));
    OK(aclrtResetDeviceForce(0));
    for (int i = 0; i < 2; i++)
        OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    expect_unbound();
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    new_stream();
}
END_TEST

START_TEST(last_bind_wins)
{
    OK(aclrtSetDevice(0));
    OK(aclrtSetDevice(1));
    ck_assert_int_eq(current_device(), 1);
    ck_assert_int_eq(is_active(0), 1);
    OK(aclrtResetDevice(0));
    ck_assert_int_eq(current_device(), 1);
    new_stream();
    ck_assert_int_eq(is_active(0), 0);
}
END_TEST

START_TEST(destroying_the_current_context_unbinds)
{
    aclrtContext primary, context;

    OK(aclrtSetDevice(0));
    primary = current_context();
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtDestroyContext(context));
    expect_unbound();
    OK(aclrtSetCurrentContext(primary));
    new_stream();
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtDestroyContext(context));
    OK(aclrtSetDevice(0));
    new_stream();
}
END_TEST

START_TEST(back_to_the_primary_context)
{
    aclrtContext primary, context;

    OK(aclrtSetDevice(0));
    primary = current_context();
    OK(aclrtCreateContext(&context, 0));
    ck_assert_ptr_eq(current_context(), context);
    ck_assert_ptr_ne(context, primary);
    OK(aclrtSetCurrentContext(primary));
    ck_assert_ptr_eq(current_context(), primary);
    OK(aclrtSetCurrentContext(context));
    OK(aclrtSetDevice(0)); /* replaces the binding, the explicit context survives */
    ck_assert_ptr_eq(current_context(), primary);
    OK(aclrtSetCurrentContext(context));
    new_stream();
}
END_TEST

START_TEST(context_switches_the_device)
{
    aclrtContext zero, one;

    OK(aclrtCreateContext(&zero, 0));
    OK(aclrtCreateContext(&one, 1));
    ck_assert_int_eq(current_device(), 1);
    OK(aclrtSetCurrentContext(zero));
    ck_assert_int_eq(current_device(), 0);
    OK(aclrtDestroyContext(one)); /* not the current one */
    ck_assert_ptr_eq(current_context(), zero);
}
END_TEST

START_TEST(primary_context_is_not_destroyed)
{
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(current_context()));
    new_stream();
}
END_TEST

/* A handle of nothing needs no npud to be recognised. */
START_TEST(destroying_no_context_does_not_connect)
{
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext((void *)0x1234));
    ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_CONTEXT_NULL);
    ck_assert_uint_eq(npud_ledger().sessions, 0);
}
END_TEST

/* Waits until the stream is being destroyed, which is when its handle is dead, and ends npud. */
static void *kill_npud_then(void *arg)
{
    int32_t id;

    while (aclrtStreamGetId(arg, &id) == 0)
        wait_a_moment();
    npud_kill();
    return NULL;
}

static aclError reset_device_0(aclrtContext context)
{
    (void)context;
    return aclrtResetDevice(0);
}

static aclError force_device_0(aclrtContext context)
{
    (void)context;
    return aclrtResetDeviceForce(0);
}

static const struct {
    const char *name;
    bool explicit;
    aclError (*end)(aclrtContext context);
} endings[] = {
    {"aclrtDestroyContext", true, aclrtDestroyContext},
    {"aclrtResetDevice", false, reset_device_0},
    {"aclrtResetDeviceForce", false, force_device_0},
};

/* The end of a context waits for its streams; npud does not live to see it. */
START_TEST(npud_gone_while_a_context_ends)
{
    const char *sentence;
    aclrtContext context;
    aclrtStream s;
    pthread_t thread;

    if (endings[_i].explicit)
        OK(aclrtCreateContext(&context, 0));
    else
        OK(aclrtSetDevice(0));
    context = current_context();
    s = new_stream();
    stream_hold(s);
    ck_assert_int_eq(pthread_create(&thread, NULL, kill_npud_then, s), 0);
    ck_assert_int_eq(endings[_i].end(context), ACL_ERROR_RT_SOCKET_CLOSE);
    pthread_join(thread, NULL);
    sentence = aclGetRecentErrMsg();
    ck_assert_ptr_nonnull(sentence);
    for (const char *line = sentence; line; line = strchr(line + 1, '['))
        ck_assert_msg(strncmp(line + 9, endings[_i].name, strlen(endings[_i].name)) == 0 &&
                          line[9 + strlen(endings[_i].name)] == ':',
                      "%s", sentence);
}
END_TEST

START_TEST(dead_context_is_refused)
{
    aclrtContext context;

    OK(aclrtCreateContext(&context, 0));
    OK(aclrtDestroyContext(context));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetCurrentContext(context));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(context));
    OK(aclrtSetDevice(0));
    context = current_context();
    OK(aclrtResetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetCurrentContext(context));
    OK(aclrtSetDevice(0)); /* another primary context, though perhaps in the same place */
    ck_assert_ptr_ne(current_context(), context);
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetCurrentContext(context));
}
END_TEST

START_TEST(explicit_context_does_not_count)
{
    aclrtContext context;

    OK(aclrtCreateContext(&context, 0));
    ck_assert_int_eq(is_active(0), 0);
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(0));
    new_stream();
}
END_TEST

START_TEST(explicit_context_keeps_the_device_open)
{
    aclrtContext context;
    aclrtStream s;
    void *p;

    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&p, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateContext(&context, 0));
    s = new_stream();
    OK(aclrtResetDevice(0));
    OK(aclrtMemset(p, MIB, 1, MIB));
    OK(aclnpudLaunchDelay(10, 0, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyContext(context));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtFree(p)); /* the device has closed, and taken its memory with it */
}
END_TEST

START_TEST(stream_of_another_context)
{
    aclrtContext context;
    aclrtStream s;

    OK(aclrtSetDevice(0));
    s = new_stream();
    OK(aclrtCreateContext(&context, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(s));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclnpudLaunchDelay(0, 0, s));
    OK(aclrtSetDevice(0));
    OK(aclrtDestroyStream(s));
}
END_TEST

START_TEST(destroyed_context_takes_its_streams)
{
    aclrtContext context;
    aclrtStream s, its_default;

    OK(aclrtCreateContext(&context, 0));
    s = new_stream();
    OK(aclrtCtxGetCurrentDefaultStream(&its_default));
    OK(aclrtDestroyContext(context));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(s));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(its_default));
}
END_TEST

/* Streams are the context's, events are not. */
START_TEST(events_survive_contexts_and_resets)
{
    aclrtContext context;
    aclrtEvent event;

    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclnpudLaunchDelay(10, 0, NULL));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtDestroyContext(context));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtSetDevice(1));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtResetDevice(1));
    ck_assert(is_recorded(event));
    OK(aclrtDestroyEvent(event));
}
END_TEST

/* --- devices and contexts, several threads --- */

static void *expect_unbound_thread(void *arg)
{
    (void)arg;
    expect_unbound();
    return NULL;
}

START_TEST(binding_is_not_inherited)
{
    OK(aclrtSetDevice(0));
    thread_call(expect_unbound_thread, NULL);
}
END_TEST

static void *t2_set_then_create(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    t2_pause();
    new_stream();
    return NULL;
}

static void *t2_set_then_unbound(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    t2_pause();
    expect_unbound();
    OK(aclrtSetDevice(0));
    new_stream();
    return NULL;
}

START_TEST(reset_of_one_thread_leaves_the_other)
{
    OK(aclrtSetDevice(0));
    t2_start(t2_set_then_create, NULL);
    OK(aclrtResetDevice(0));
    t2_go_on();
}
END_TEST

START_TEST(force_reset_unbinds_the_other_thread)
{
    OK(aclrtSetDevice(0));
    t2_start(t2_set_then_unbound, NULL);
    OK(aclrtResetDeviceForce(0));
    t2_go_on();
}
END_TEST

static void *t2_set_then_force(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    t2_pause();
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDeviceForce(0));
    return NULL;
}

START_TEST(second_force_of_two_threads_fails)
{
    OK(aclrtSetDevice(0));
    t2_start(t2_set_then_force, NULL);
    OK(aclrtResetDeviceForce(0));
    t2_go_on();
}
END_TEST

static void *t2_bind_then_unbound(void *context)
{
    OK(aclrtSetCurrentContext(context));
    new_stream();
    t2_pause();
    expect_unbound();
    return NULL;
}

START_TEST(context_destroyed_by_another_thread)
{
    aclrtContext context;

    OK(aclrtCreateContext(&context, 0));
    t2_start(t2_bind_then_unbound, context);
    OK(aclrtDestroyContext(context));
    t2_go_on();
}
END_TEST

static void *same_primary(void *context)
{
    OK(aclrtSetDevice(0));
    ck_assert_ptr_eq(current_context(), context);
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(threads_share_the_primary_context)
{
    OK(aclrtSetDevice(0));
    thread_call(same_primary, current_context());
    new_stream();
}
END_TEST

static void *reset_both(void *arg)
{
    (void)arg;
    OK(aclrtResetDevice(0)); /* not this thread's current device: any thread may */
    expect_unbound();
    return NULL;
}

START_TEST(any_thread_may_reset)
{
    OK(aclrtSetDevice(0));
    thread_call(reset_both, NULL);
    expect_unbound();
}
END_TEST

/*
 * A binding must not come to life again in a later session that happens to lie at the same
 * address.
 */
static void *t2_bound_before_finalize(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    t2_pause();
    expect_unbound();
    return NULL;
}

START_TEST(binding_does_not_outlive_the_session)
{
    t2_start(t2_bound_before_finalize, NULL);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    t2_go_on();
}
END_TEST

/* Many threads set, work and reset at the same time: each must find its device as it left it. */
static void *set_work_reset(void *arg)
{
    int32_t device = (int32_t)(intptr_t)arg;

    for (int i = 0; i < 50; i++) {
        aclrtStream s;

        OK(aclrtSetDevice(device));
        s = new_stream();
        OK(aclnpudLaunchDelay(1, 0, s));
        OK(aclnpudLaunchDelay(1, 0, NULL));
        OK(aclrtSynchronizeStream(s));
        ck_assert_int_eq(current_device(), device);
        OK(aclrtDestroyStream(s));
        OK(aclrtResetDevice(device));
    }
    return NULL;
}

START_TEST(threads_set_and_reset_at_the_same_time)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, set_work_reset, (void *)(intptr_t)(i % 2));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(is_active(0) + is_active(1), 0);
    ck_assert_uint_eq(npud_ledger().streams, 0);
}
END_TEST

/* --- the worked cases of streams --- */

START_TEST(fresh_streams)
{
    OK(aclrtSetDevice(0));
    OK(aclrtSynchronizeStream(NULL));
    ck_assert(idle(NULL));
    ck_assert(idle(new_stream()));
}
END_TEST

START_TEST(blocked_stream_times_out_and_goes_on)
{
    aclrtStream s;
    aclrtEvent gate;
    uint64_t start;

    OK(aclrtSetDevice(0));
    s = new_stream();
    gate = stream_hold(s);
    ck_assert(!idle(s));
    start = now_ns();
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(s, 50));
    ck_assert_uint_ge(now_ns() - start, 50000000);
    ck_assert(!idle(s));
    OK(aclrtRecordEvent(gate, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
    ck_assert(idle(s));
}
END_TEST

START_TEST(stream_of_another_device)
{
    aclrtStream s;
    aclrtStreamStatus status;
    int32_t id;

    OK(aclrtSetDevice(0));
    s = new_stream();
    OK(aclnpudLaunchDelay(1000, 0, s));
    OK(aclrtSetDevice(1));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(s));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStreamForce(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtStreamQuery(s, &status));
    OK(aclrtStreamGetId(s, &id));
}
END_TEST

START_TEST(priorities_are_clamped)
{
    static const struct {
        uint32_t asked, got;
    } rows[] = {{0, 0}, {7, 7}, {8, 7}, {9, 7}, {UINT32_MAX, 7}};
    uint32_t priority;
    aclrtStream s;

    OK(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        OK(aclrtCreateStreamWithConfig(&s, rows[i].asked, 0));
        OK(aclrtStreamGetPriority(s, &priority));
        ck_assert_uint_eq(priority, rows[i].got);
    }
}
END_TEST

START_TEST(stream_flags)
{
    static const struct {
        uint32_t asked, got;
    } rows[] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {0x10, 0x10}, {0x20, 0x20}, {0x100, 0}};
    uint32_t flags;
    aclrtStream s;

    OK(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        OK(aclrtCreateStreamWithConfig(&s, 0, rows[i].asked));
        OK(aclrtStreamGetFlags(s, &flags));
        ck_assert_uint_eq(flags, rows[i].got);
        OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
        ck_assert(idle(s));
        OK(aclrtDestroyStream(s));
    }
    for (uint32_t other = 1; other < 0x20; other++)
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateStreamWithConfig(&s, 0, 0x20 | other));
}
END_TEST

START_TEST(stream_ids_are_unique_on_a_device)
{
    int32_t ids[20], id;
    aclrtStream s;

    OK(aclrtSetDevice(0));
    for (int i = 0; i < 20; i++) {
        s = i ? new_stream() : NULL;
        OK(aclrtStreamGetId(s, &ids[i]));
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(ids[i], ids[j]);
    }
    OK(aclrtStreamGetId(s, &id));
    ck_assert_int_eq(id, ids[19]);
}
END_TEST

/* Continue on failure: reported once, then cleared; a later failure is news. */
START_TEST(failure_is_reported_once)
{
    aclrtStream s;

    OK(aclrtSetDevice(0));
    s = new_stream();
    for (int i = 0; i < 2; i++) {
        OK(aclnpudLaunchDelay(10, ACL_ERROR_RT_AICORE_EXCEPTION, s));
        OK(aclnpudLaunchDelay(10, 0, s));
        FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
        OK(aclrtSynchronizeStream(s));
    }
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, s));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_TIMEOUT, s));
    FAILS(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(s)); /* the later one overwrites */
    OK(aclrtSynchronizeStream(s));
}
END_TEST

START_TEST(query_does_not_consume_a_failure)
{
    aclrtStream s;

    OK(aclrtSetDevice(0));
    s = new_stream();
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, s));
    while (!idle(s))
        wait_a_moment();
    ck_assert(idle(s));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
}
END_TEST

/* A failure belongs to its stream. */
START_TEST(failure_does_not_spread)
{
    aclrtStream s, other;

    OK(aclrtSetDevice(0));
    s = new_stream();
    other = new_stream();
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, s));
    OK(aclnpudLaunchDelay(0, 0, other));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(NULL));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
}
END_TEST

START_TEST(stream_is_gone_after_reset)
{
    aclrtStream s;
    aclError error;

    OK(aclrtSetDevice(0));
    s = new_stream();
    OK(aclrtResetDevice(0));
    error = aclrtDestroyStream(s);
    ck_assert_msg(error == ACL_ERROR_RT_INVALID_HANDLE || error == ACL_ERROR_RT_CONTEXT_NULL, "%d",
                  error);
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(s));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(s));
}
END_TEST

START_TEST(destroy_waits_for_the_work)
{
    aclrtEvent event;
    aclrtStream s;
    uint64_t start = now_ns();

    OK(aclrtSetDevice(0));
    s = new_stream();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclnpudLaunchDelay(50000, 0, s));
    OK(aclrtRecordEvent(event, s));
    OK(aclrtDestroyStream(s));
    ck_assert_uint_ge(now_ns() - start, 50000000);
    ck_assert(is_recorded(event));
}
END_TEST

START_TEST(force_destroys_without_waiting)
{
    aclrtEvent event;
    aclrtStream s, waiter;
    uint64_t start = now_ns();

    OK(aclrtSetDevice(0));
    s = new_stream();
    waiter = new_stream();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclnpudLaunchDelay(60000000, 0, s));
    OK(aclrtRecordEvent(event, s));
    OK(aclrtStreamWaitEvent(waiter, event));
    OK(aclrtDestroyStreamForce(s));
    /* What was tied to the discarded record does not hang, and the event is good for new ones. */
    aclrtSynchronizeEvent(event);
    aclrtSynchronizeStream(waiter);
    ck_assert_uint_lt(now_ns() - start, UINT64_C(30000000000));
    OK(aclrtRecordEvent(event, waiter));
    OK(aclrtSynchronizeEvent(event));
    ck_assert(is_recorded(event));
}
END_TEST

START_TEST(force_frees_a_stream_that_waits_for_ever)
{
    aclrtStream s;

    OK(aclrtSetDevice(0));
    s = new_stream();
    stream_hold(s);
    OK(aclrtDestroyStreamForce(s));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(s));
    OK(aclrtSynchronizeDeviceWithTimeout(LIMIT_MS));
}
END_TEST

/* --- default streams --- */

START_TEST(default_stream_is_null)
{
    aclrtStream handle, again;
    int32_t id, id_of_null;

    OK(aclrtSetDevice(0));
    OK(aclrtCtxGetCurrentDefaultStream(&handle));
    OK(aclrtCtxGetCurrentDefaultStream(&again));
    ck_assert_ptr_nonnull(handle);
    ck_assert_ptr_eq(handle, again);
    OK(aclrtStreamGetId(handle, &id));
    OK(aclrtStreamGetId(NULL, &id_of_null));
    ck_assert_int_eq(id, id_of_null);
    OK(aclnpudLaunchDelay(30000, 0, NULL));
    ck_assert(!idle(handle));
    OK(aclrtSynchronizeStream(handle));
    ck_assert(idle(NULL));
}
END_TEST

START_TEST(default_stream_cannot_be_destroyed)
{
    aclrtStream handle;

    OK(aclrtSetDevice(0));
    OK(aclrtCtxGetCurrentDefaultStream(&handle));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDestroyStream(handle));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDestroyStreamForce(handle));
    OK(aclnpudLaunchDelay(10, 0, handle));
    OK(aclrtSynchronizeStream(NULL));
}
END_TEST

START_TEST(each_context_has_its_default_stream)
{
    aclrtStream primary, own;
    aclrtContext context;

    OK(aclrtSetDevice(0));
    OK(aclrtCtxGetCurrentDefaultStream(&primary));
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCtxGetCurrentDefaultStream(&own));
    ck_assert_ptr_ne(primary, own);
    OK(aclnpudLaunchDelay(100000, 0, NULL));
    ck_assert(!idle(own));
    ck_assert(idle(primary));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclnpudLaunchDelay(0, 0, primary));
    OK(aclrtSynchronizeStream(NULL));
}
END_TEST

/* There is no implicit synchronisation, in either direction. */
START_TEST(default_stream_does_not_synchronise_with_others)
{
    aclrtStream s;
    aclrtEvent gate;

    OK(aclrtSetDevice(0));
    s = new_stream();
    gate = stream_hold(s);
    OK(aclnpudLaunchDelay(10, 0, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(NULL, LIMIT_MS));
    OK(aclrtRecordEvent(gate, NULL));
    OK(aclrtSynchronizeStream(s));
    gate = stream_hold(NULL);
    OK(aclnpudLaunchDelay(10, 0, s));
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
    ck_assert(!idle(NULL));
    OK(aclrtRecordEvent(gate, s));
    OK(aclrtSynchronizeStream(NULL));
}
END_TEST

static void *submit_to_default(void *context)
{
    OK(aclrtSetCurrentContext(context));
    OK(aclnpudLaunchDelay(30000, ACL_ERROR_RT_AICORE_EXCEPTION, NULL));
    return NULL;
}

START_TEST(threads_share_the_default_stream)
{
    OK(aclrtSetDevice(0));
    thread_call(submit_to_default, current_context());
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(NULL));
}
END_TEST

/* --- what a reset takes with it --- */

START_TEST(reset_waits_for_the_work_of_all_streams)
{
    aclrtEvent first, second;
    aclrtStream s;
    uint64_t start = now_ns();

    OK(aclrtSetDevice(0));
    s = new_stream();
    OK(aclrtCreateEventExWithFlag(&first, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&second, ACL_EVENT_SYNC));
    OK(aclnpudLaunchDelay(30000, 0, NULL));
    OK(aclrtRecordEvent(first, NULL));
    OK(aclnpudLaunchDelay(60000, 0, s));
    OK(aclrtRecordEvent(second, s));
    OK(aclrtResetDevice(0));
    ck_assert_uint_ge(now_ns() - start, 60000000);
    ck_assert(is_recorded(first) && is_recorded(second));
}
END_TEST

static void get_memory(size_t *available, size_t *total)
{
    OK(aclrtGetMemInfo(ACL_HBM_MEM, available, total));
}

START_TEST(final_reset_frees_the_memory_of_the_device)
{
    size_t available, total;
    aclrtPtrAttributes attributes;
    void *p, *far, *host;

    OK(aclrtSetDevice(1));
    OK(aclrtMalloc(&far, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtSetDevice(0));
    OK(aclrtMallocHost(&host, MIB));
    for (int i = 0; i < 10; i++)
        OK(aclrtMalloc(&p, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    get_memory(&available, &total);
    ck_assert_uint_le(available, total - 10 * MIB);
    OK(aclrtSetDevice(0));
    OK(aclrtResetDevice(0)); /* not the final one */
    OK(aclrtMemset(p, MIB, 1, MIB));
    OK(aclrtResetDevice(0));
    OK(aclrtPointerGetAttributes(p, &attributes));
    ck_assert_int_eq(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(p));
    OK(aclrtSetDevice(0));
    get_memory(&available, &total);
    ck_assert_uint_eq(available, total);
    OK(aclrtFree(far)); /* the other device's */
    OK(aclrtFreeHost(host));
}
END_TEST

/*
 * One thread's final reset still drains when another sets the device anew and allocates: that
 * memory is the other's.
 */
static aclrtEvent reset_gate;
static void *fresh_memory;

static void *set_anew_while_resetting(void *arg)
{
    aclrtContext helper;

    (void)arg;
    while (is_active(0))
        wait_a_moment();
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&fresh_memory, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateContext(&helper, 1));
    OK(aclrtRecordEvent(reset_gate, NULL));
    return NULL;
}

START_TEST(reset_does_not_take_what_was_allocated_after_it)
{
    aclrtPtrAttributes attributes;
    pthread_t thread;

    OK(aclrtSetDevice(0));
    reset_gate = stream_hold(NULL);
    pthread_create(&thread, NULL, set_anew_while_resetting, NULL);
    OK(aclrtResetDevice(0));
    pthread_join(thread, NULL);
    OK(aclrtPointerGetAttributes(fresh_memory, &attributes));
    ck_assert_int_eq(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    OK(aclrtSetDevice(0));
    OK(aclrtFree(fresh_memory));
}
END_TEST

/* --- memory information --- */

START_TEST(memory_info_follows_allocations)
{
    size_t total, before, during, after, total_of_one;
    void *p;

    OK(aclrtSetDevice(0));
    get_memory(&before, &total);
    ck_assert_uint_eq(total, 512 * MIB);
    ck_assert_uint_eq(before, total);
    OK(aclrtMalloc(&p, 100 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    get_memory(&during, &total);
    ck_assert_uint_le(during, before - 100 * MIB);
    ck_assert_uint_ge(during, before - 101 * MIB);
    OK(aclrtSetDevice(1)); /* each device has its own */
    get_memory(&after, &total_of_one);
    ck_assert_uint_eq(after, total_of_one);
    OK(aclrtFree(p));
    OK(aclrtSetDevice(0));
    get_memory(&after, &total);
    ck_assert_uint_eq(after, before);
}
END_TEST

static int hold_memory(void *arg)
{
    void *p;

    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&p, 64 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    turn_tell(&to_t1);
    turn_await(&to_t2);
    return 0;
}

START_TEST(memory_info_counts_other_processes)
{
    size_t available, total;
    pid_t pid;

    turn_init(&to_t1);
    turn_init(&to_t2);
    pid = child_start(hold_memory, NULL);
    turn_await(&to_t1);
    OK(aclrtSetDevice(0));
    get_memory(&available, &total);
    ck_assert_uint_le(available, total - 64 * MIB);
    turn_tell(&to_t2);
    child_expect_ok(pid);
    while (npud_ledger().sessions != 1)
        ;
    get_memory(&available, &total);
    ck_assert_uint_eq(available, total);
}
END_TEST

/* --- peer access --- */

static int peer_status(int32_t from, int32_t to)
{
    int32_t status = -1;

    OK(aclrtDevicePeerAccessStatus(from, to, &status));
    return status;
}

START_TEST(peer_access_has_a_direction)
{
    int32_t can = -1;

    OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    ck_assert_int_eq(can, 1);
    OK(aclrtSetDevice(0));
    ck_assert_int_eq(peer_status(0, 1), 0);
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    ck_assert_int_eq(peer_status(0, 1), 1);
    ck_assert_int_eq(peer_status(1, 0), 0);
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtDeviceDisablePeerAccess(1));
    ck_assert_int_eq(peer_status(0, 1), 0);
    OK(aclrtSetDevice(1));
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    ck_assert_int_eq(peer_status(1, 0), 1);
}
END_TEST

/* One code, wherever one looks: returned, in the sentence and in the last-error record. */
START_TEST(peer_status_of_a_device_that_is_not_there)
{
    static const struct {
        int32_t from, to;
    } rows[] = {{0, 2}, {2, 0}, {-1, 0}, {0, -1}};
    int32_t status = 77;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *sentence;

        ck_assert_int_eq(aclrtDevicePeerAccessStatus(rows[i].from, rows[i].to, &status),
                         ACL_ERROR_RT_PARAM_INVALID);
        sentence = aclGetRecentErrMsg();
        ck_assert_msg(sentence &&
                          strncmp(sentence, "[107000] aclrtDevicePeerAccessStatus", 36) == 0,
                      "%s", sentence);
        ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_PARAM_INVALID);
        ck_assert_int_eq(status, 77);
    }
}
END_TEST

static void *peer_of_another_thread(void *arg)
{
    (void)arg;
    ck_assert_int_eq(peer_status(0, 1), 1);
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDeviceEnablePeerAccess(1, 0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDeviceDisablePeerAccess(1));
    return NULL;
}

START_TEST(peer_access_is_of_the_process)
{
    OK(aclrtSetDevice(0));
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    thread_call(peer_of_another_thread, NULL);
}
END_TEST

/* --- visible devices: four devices, with as many MiB in use on each as its number plus one --- */

static int hold_on_each(void *arg)
{
    void *p;

    (void)arg;
    for (int i = 0; i < 4; i++) {
        OK(aclrtSetDevice(i));
        OK(aclrtMallocAlign32(&p, (size_t)(i + 1) * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    turn_tell(&to_t1);
    turn_await(&to_t2);
    return 0;
}

/* Number of the device behind a user id. */
static int logical_of(int32_t user)
{
    size_t available, total;

    OK(aclrtSetDevice(user));
    get_memory(&available, &total);
    return (int)((total - available) / MIB) - 1;
}

struct visible {
    const char *text;
    uint32_t count; /* 0: the variable selects nothing */
    int logical[4];
};

static const struct visible visible[] = {
    {NULL, 4, {0, 1, 2, 3}},
    {"0,1,2,3", 4, {0, 1, 2, 3}},
    {"1,3", 2, {1, 3}},
    {"3", 1, {3}},
    {"0,2,3", 3, {0, 2, 3}},
    {"2,x,3", 1, {2}}, /* reading stops at what is no number */
    {"1,2,", 2, {1, 2}},
    {"1,,3", 1, {1}},
    {"1, 3", 1, {1}},
    {"1,-3", 1, {1}},
    {"1,3abc", 1, {1}},
    {"0x1", 0, {0}},
    {"0,9", 1, {0}}, /* or out of range, */
    {"0,99999999999999999999", 1, {0}},
    {"0,9,1", 1, {0}}, /* and what follows does not matter */
    {"0,99,0", 1, {0}},
    {"2,1", 0, {0}}, /* wrong order or a repetition spoils all of it */
    {"1,1", 0, {0}},
    {"0,1,3,2", 0, {0}},
    {"", 0, {0}},
    {",1", 0, {0}},
    {"none", 0, {0}},
    {"-1", 0, {0}},
    {"4", 0, {0}},
    {"9,1", 0, {0}},
};
#define VISIBLE (int)(sizeof(visible) / sizeof(visible[0]))

static void expect_visible(const struct visible *v)
{
    aclrtPtrAttributes attributes;
    uint32_t count = 0;
    void *p;

    OK(aclrtGetDeviceCount(&count));
    ck_assert_msg(count == v->count, "\"%s\": %u devices", v->text, count);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_eq(logical_of((int32_t)i), v->logical[i]);
        ck_assert_int_eq(current_device(), (int)i);
        OK(aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtPointerGetAttributes(p, &attributes));
        ck_assert_msg(attributes.location.id == i,
                      "\"%s\": memory of device %u, expected user id %u", v->text,
                      attributes.location.id, i);
        OK(aclrtFree(p));
    }
}

static int check_visible(void *arg)
{
    const struct visible *v = arg;
    uint32_t count = 77;

    if (v->text)
        setenv("ASCEND_RT_VISIBLE_DEVICES", v->text, 1);
    if (v->count > 0) {
        expect_visible(v);
    } else {
        FAILS(ACL_ERROR_RT_NO_DEVICE, aclrtGetDeviceCount(&count));
        ck_assert_uint_eq(count, 77);
    }
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice((int32_t)v->count));
    setenv("ASCEND_RT_VISIBLE_DEVICES", "0", 1); /* too late: it was read */
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice((int32_t)v->count));
    return 0;
}

START_TEST(visible_devices)
{
    static const char *const args[] = {"--devices=4", NULL};
    pid_t pid;

    npud_start(args);
    turn_init(&to_t1);
    turn_init(&to_t2);
    pid = child_start(hold_on_each, NULL);
    turn_await(&to_t1);
    child_expect_ok(child_start(check_visible, (void *)(uintptr_t)&visible[_i]));
    turn_tell(&to_t2);
    child_expect_ok(pid);
}
END_TEST

/* --- */

static void setup_small(void)
{
    static const char *const args[] = {"--set=sim.memory=512M", NULL};

    npud_start(args);
}

static void add_contexts(Suite *s)
{
    TCase *t = suite_case(s, "contexts", 60, set_up_test, npud_teardown);

    tcase_add_test(t, fresh_thread_has_nothing);
    tcase_add_test(t, set_count_is_a_count);
    tcase_add_test(t, reset_without_set);
    tcase_add_test(t, force_drops_the_whole_count);
    tcase_add_test(t, last_bind_wins);
    tcase_add_test(t, destroying_the_current_context_unbinds);
    tcase_add_test(t, back_to_the_primary_context);
    tcase_add_test(t, context_switches_the_device);
    tcase_add_test(t, primary_context_is_not_destroyed);
    tcase_add_test(t, dead_context_is_refused);
    tcase_add_test(t, destroying_no_context_does_not_connect);
    tcase_add_loop_test(t, npud_gone_while_a_context_ends, 0, sizeof(endings) / sizeof(endings[0]));
    tcase_add_test(t, explicit_context_does_not_count);
    tcase_add_test(t, explicit_context_keeps_the_device_open);
    tcase_add_test(t, stream_of_another_context);
    tcase_add_test(t, destroyed_context_takes_its_streams);
    tcase_add_test(t, events_survive_contexts_and_resets);
}

static void add_threads(Suite *s)
{
    TCase *t = suite_case(s, "threads", 60, set_up_test, npud_teardown);

    tcase_add_test(t, binding_is_not_inherited);
    tcase_add_test(t, reset_of_one_thread_leaves_the_other);
    tcase_add_test(t, force_reset_unbinds_the_other_thread);
    tcase_add_test(t, second_force_of_two_threads_fails);
    tcase_add_test(t, context_destroyed_by_another_thread);
    tcase_add_test(t, threads_share_the_primary_context);
    tcase_add_test(t, any_thread_may_reset);
    tcase_add_test(t, binding_does_not_outlive_the_session);
    tcase_add_test(t, threads_set_and_reset_at_the_same_time);
    tcase_add_test(t, reset_does_not_take_what_was_allocated_after_it);
}

static void add_streams(Suite *s)
{
    TCase *t = suite_case(s, "streams", 60, set_up_test, npud_teardown);

    tcase_add_test(t, fresh_streams);
    tcase_add_test(t, blocked_stream_times_out_and_goes_on);
    tcase_add_test(t, stream_of_another_device);
    tcase_add_test(t, priorities_are_clamped);
    tcase_add_test(t, stream_flags);
    tcase_add_test(t, stream_ids_are_unique_on_a_device);
    tcase_add_test(t, failure_is_reported_once);
    tcase_add_test(t, query_does_not_consume_a_failure);
    tcase_add_test(t, failure_does_not_spread);
    tcase_add_test(t, stream_is_gone_after_reset);
    tcase_add_test(t, destroy_waits_for_the_work);
    tcase_add_test(t, force_destroys_without_waiting);
    tcase_add_test(t, force_frees_a_stream_that_waits_for_ever);
    tcase_add_test(t, default_stream_is_null);
    tcase_add_test(t, default_stream_cannot_be_destroyed);
    tcase_add_test(t, each_context_has_its_default_stream);
    tcase_add_test(t, default_stream_does_not_synchronise_with_others);
    tcase_add_test(t, threads_share_the_default_stream);
    tcase_add_test(t, reset_waits_for_the_work_of_all_streams);
}

static void add_devices(Suite *s)
{
    TCase *t = suite_case(s, "memory of devices", 60, setup_small, npud_teardown);

    tcase_add_test(t, final_reset_frees_the_memory_of_the_device);
    tcase_add_test(t, memory_info_follows_allocations);
    tcase_add_test(t, memory_info_counts_other_processes);
    tcase_add_test(t, peer_access_has_a_direction);
    tcase_add_test(t, peer_status_of_a_device_that_is_not_there);
    tcase_add_test(t, peer_access_is_of_the_process);
    t = suite_case(s, "visible devices", 60, NULL, npud_teardown);
    tcase_add_loop_test(t, visible_devices, 0, VISIBLE);
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("contexts");

    add_contexts(s);
    add_threads(s);
    add_streams(s);
    add_devices(s);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
