/*
 * The ends of callbacks: subscriptions, streams, contexts, threads, processes and npud go while
 * callbacks are launched, handed over or running. No caller hangs, and each callback runs once or
 * is dropped once.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "reporter.h"
#include "tests/common/effort.h"
#include "tests/common/moment.h"

static aclrtStream stream, other, probe;

/* What became of the callbacks of a test. */
static _Atomic int run, dropped;

static void count_run(void *arg)
{
    (void)arg;
    atomic_fetch_add(&run, 1);
}

static void count_drop(void *arg)
{
    (void)arg;
    atomic_fetch_add(&dropped, 1);
}

static void open_device(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&probe));
    atomic_store(&run, 0);
    atomic_store(&dropped, 0);
}

static uint64_t get_own_thread(void)
{
    return (uint64_t)pthread_self();
}

static void launch_callback(aclrtStream s, bool block)
{
    OK(aclnpudLaunchCallbackWithDrop(count_run, count_drop, NULL, block, s));
}

static void expect_counts(int runs, int drops)
{
    ck_assert_int_eq(atomic_load(&run), runs);
    ck_assert_int_eq(atomic_load(&dropped), drops);
}

/* --- pending --- */

/* The states that a stream with pending callbacks can be in. */
enum pending {
    HANDED_OVER, /* three that do not block, and the stream is through */
    BLOCKED,     /* it stands at one that blocks */
    QUEUED,      /* it has not got to any */
    PENDINGS
};

static aclrtEvent behind; /* recorded behind them */

static void make_pending(enum pending how)
{
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtCreateEvent(&behind));
    if (how == QUEUED)
        OK(aclnpudLaunchDelay(20000, 0, stream));
    if (how == HANDED_OVER) {
        for (int i = 0; i < 3; i++)
            launch_callback(stream, false);
    } else {
        launch_callback(stream, true);
        launch_callback(stream, false);
        launch_callback(stream, true);
    }
    OK(aclrtRecordEvent(behind, stream));
    if (how == HANDED_OVER)
        OK(aclrtSynchronizeStream(stream));
    if (how == BLOCKED)
        await_callback(stream);
}

static aclrtEventRecordedStatus status_of(aclrtEvent e)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(e, &status));
    return status;
}

START_TEST(unsubscribing)
{
    open_device();
    make_pending(_i);
    OK(aclrtUnSubscribeReport(get_own_thread(), stream));
    expect_counts(0, 3);
    OK(aclrtSynchronizeStream(stream)); /* goes on as if they had run */
    ck_assert_int_eq(status_of(behind), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(100000));
    /* What comes after a new subscription runs. */
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    launch_callback(stream, true);
    launch_callback(stream, false);
    while (atomic_load(&run) < 2)
        OK(aclrtProcessReport(LIMIT_MS));
    OK(aclrtSynchronizeStream(stream));
    expect_counts(2, 3);
}
END_TEST

START_TEST(destroying_the_stream)
{
    open_device();
    make_pending(_i);
    OK(aclrtDestroyStream(stream));
    expect_counts(0, 3);
    ck_assert_int_eq(status_of(behind), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
}
END_TEST

START_TEST(destroying_it_by_force)
{
    open_device();
    make_pending(_i);
    OK(aclrtDestroyStreamForce(stream));
    expect_counts(0, 3);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    /* Its slot serves as well as a new one. */
    OK(aclrtCreateStream(&stream));
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    launch_callback(stream, true);
    OK(aclrtProcessReport(LIMIT_MS));
    OK(aclrtSynchronizeStream(stream));
    expect_counts(1, 3);
}
END_TEST

/*
 * Streams of one context that wait for each other's callbacks; the order in which they are
 * destroyed is the library's.
 */
static void pend_crosswise(enum pending how)
{
    aclrtEvent e;

    make_pending(how);
    OK(aclrtSubscribeReport(get_own_thread(), other));
    OK(aclrtCreateEvent(&e));
    launch_callback(other, true);
    OK(aclrtRecordEvent(e, other));
    OK(aclrtStreamWaitEvent(stream, e));
    OK(aclrtStreamWaitEvent(probe, e));
}

START_TEST(resetting_the_device)
{
    open_device();
    pend_crosswise(_i / 2);
    OK(_i % 2 ? aclrtResetDeviceForce(0) : aclrtResetDevice(0));
    expect_counts(0, 4);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

START_TEST(destroying_the_context)
{
    aclrtContext c;

    open_device();
    OK(aclrtCreateContext(&c, 0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&probe));
    pend_crosswise(_i);
    OK(aclrtDestroyContext(c));
    expect_counts(0, 4);
}
END_TEST

/* --- while one runs --- */

static struct latch entered = LATCH, leave = LATCH, gone = LATCH;

static void block_in_callback(void *arg)
{
    (void)arg;
    latch_open(&entered);
    latch_wait(&leave);
    atomic_fetch_add(&run, 1);
}

enum ending { UNSUBSCRIBE, DESTROY, DESTROY_FORCE, RESET, ENDINGS };
#define DESTROY_OWN ENDINGS

struct ender {
    enum ending how;
    uint64_t thread;
};

static void *end_it(void *arg)
{
    struct ender *e = arg;

    OK(aclrtSetDevice(0));
    switch (e->how) {
    case UNSUBSCRIBE:
        OK(aclrtUnSubscribeReport(e->thread, stream));
        break;
    case DESTROY:
        OK(aclrtDestroyStream(stream));
        break;
    case DESTROY_FORCE:
        OK(aclrtDestroyStreamForce(stream));
        break;
    default:
        OK(aclrtResetDeviceForce(0));
        break;
    }
    ck_assert_int_ge(atomic_load(&run), 1); /* not before it had returned */
    latch_open(&gone);
    return NULL;
}

START_TEST(who_ends_it_waits_for_the_one_that_runs)
{
    struct reporter r;
    struct ender e = {.how = _i};
    pthread_t t;

    open_device();
    reporter_start(&r, -1);
    e.thread = reporter_id(&r);
    OK(aclrtSubscribeReport(e.thread, stream));
    OK(aclnpudLaunchCallbackWithDrop(block_in_callback, count_drop, NULL, ACL_CALLBACK_BLOCK,
                                     stream));
    launch_callback(stream, false);
    launch_callback(stream, true);
    latch_wait(&entered);
    ck_assert_int_eq(pthread_create(&t, NULL, end_it, &e), 0);
    if (_i == UNSUBSCRIBE) {
        /* Once it has dropped them, it waits. */
        while (aclrtUnSubscribeReport(1, stream) == ACL_ERROR_RT_THREAD_SUBSCRIBE)
            wait_a_moment();
    }
    ck_assert(!latch_is_open(&gone));
    latch_open(&leave);
    pthread_join(t, NULL);
    reporter_stop(&r);
    /* Between the return of the first and the end of the stream others may have had their turn. */
    if (_i == UNSUBSCRIBE)
        ck_assert_int_eq(atomic_load(&run), 1);
    ck_assert_int_eq(atomic_load(&run) + atomic_load(&dropped), 3);
}
END_TEST

static void end_own(void *how)
{
    OK(aclrtSetDevice(0));
    if (*(enum ending *)how == UNSUBSCRIBE)
        OK(aclrtUnSubscribeReport(get_own_thread(), stream));
    else if (*(enum ending *)how == DESTROY)
        OK(aclrtDestroyStream(other));
    else if (*(enum ending *)how == DESTROY_OWN)
        OK(aclrtDestroyStream(stream));
    else
        OK(aclrtDestroyStreamForce(stream));
    atomic_fetch_add(&run, 1);
}

/* A callback that ends its own subscription or stream, or that of a stream beside it. */
START_TEST(in_the_callback_itself)
{
    enum ending how = _i == RESET ? DESTROY_OWN : (enum ending)_i;
    aclrtEvent e;

    open_device();
    OK(aclrtCreateEvent(&e));
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtSubscribeReport(get_own_thread(), other));
    OK(aclrtLaunchCallback(end_own, &how, ACL_CALLBACK_BLOCK, stream));
    launch_callback(stream, true);
    OK(aclrtRecordEvent(e, stream));
    launch_callback(other, true);
    if (_i == DESTROY)
        await_callback(other);
    OK(aclrtProcessReport(LIMIT_MS));
    while (_i == DESTROY && atomic_load(&run) < 2)
        OK(aclrtProcessReport(LIMIT_MS));
    if (_i == DESTROY) { /* its neighbour's was dropped; its own are left */
        ck_assert_int_eq(atomic_load(&dropped), 1);
        OK(aclrtSynchronizeStream(stream));
        return;
    }
    ck_assert_int_eq(atomic_load(&dropped), 1);
    if (how == UNSUBSCRIBE)
        OK(aclrtSynchronizeStream(stream));
    if (how != DESTROY_FORCE) {
        ck_assert_int_eq(status_of(e), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    }
    while (atomic_load(&run) < 2)
        OK(aclrtProcessReport(LIMIT_MS));
    OK(aclrtSynchronizeStream(other));
}
END_TEST

static void exit_thread(void *arg)
{
    atomic_fetch_add(&run, 1);
    pthread_exit(arg);
}

/* Unspecified, says the reference. Here it has returned. */
START_TEST(callback_that_exits_its_thread)
{
    struct reporter r;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    OK(aclrtLaunchCallback(exit_thread, NULL, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    reporter_join(&r);
    launch_callback(stream, true);
    await_callback(stream);
    OK(aclrtUnSubscribeReport(reporter_id(&r), stream));
    OK(aclrtSynchronizeStream(stream));
    expect_counts(1, 1);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* --- a full ring --- */

static void *fill_up(void *arg)
{
    aclrtEvent e;

    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    for (int i = 0; i < 3000; i++)
        OK(aclrtRecordEvent(e, stream));
    return NULL;
}

START_TEST(submitter_in_a_full_ring)
{
    pthread_t t;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    launch_callback(stream, true);
    ck_assert_int_eq(pthread_create(&t, NULL, fill_up, NULL), 0);
    await_sleeper("aclrtRecordEvent");
    OK(aclrtUnSubscribeReport(get_own_thread(), stream));
    pthread_join(t, NULL);
    OK(aclrtSynchronizeStream(stream));
    expect_counts(0, 1);
}
END_TEST

/* --- threads that sleep in aclrtProcessReport --- */

START_TEST(sleeper_is_woken)
{
    struct reporter r;
    struct ender e = {.how = _i};
    pthread_t t;

    open_device();
    reporter_start(&r, -1);
    e.thread = reporter_id(&r);
    OK(aclrtSubscribeReport(e.thread, stream));
    await_sleeper("aclrtProcessReport");
    atomic_store(&r.stop, true);
    atomic_store(&run, 1);
    ck_assert_int_eq(pthread_create(&t, NULL, end_it, &e), 0);
    reporter_join(&r);
    pthread_join(t, NULL);
    ck_assert_int_eq(r.result, ACL_ERROR_RT_THREAD_SUBSCRIBE);
}
END_TEST

START_TEST(one_of_two_streams_is_no_reason)
{
    struct reporter r;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    OK(aclrtSubscribeReport(reporter_id(&r), other));
    await_sleeper("aclrtProcessReport");
    OK(aclrtUnSubscribeReport(reporter_id(&r), stream));
    await_sleeper("aclrtProcessReport");
    launch_callback(other, true);
    OK(aclrtSynchronizeStream(other));
    expect_counts(1, 0);
    reporter_leave(&r, other);
}
END_TEST

/* --- npud goes --- */

START_TEST(npud_dies)
{
    struct reporter r[3];

    open_device();
    for (int i = 0; i < 3; i++)
        reporter_start(&r[i], i == 2 ? 100000 : -1);
    OK(aclrtSubscribeReport(reporter_id(&r[0]), stream));
    OK(aclrtSubscribeReport(reporter_id(&r[1]), other));
    OK(aclrtSubscribeReport(reporter_id(&r[2]), NULL));
    OK(aclrtSubscribeReport(get_own_thread(), probe));
    OK(aclnpudLaunchDelay(100000000, 0, stream));
    launch_callback(stream, true); /* dropped by the thread that learns that it is over */
    launch_callback(probe, true);  /* by the next aclInit */
    await_sleeper("aclrtProcessReport");
    await_callback(probe);
    npud_kill();
    for (int i = 0; i < 3; i++) {
        reporter_join(&r[i]);
        ck_assert_int_eq(r[i].result, ACL_ERROR_RT_SOCKET_CLOSE);
    }
    expect_counts(0, 1);
    ck_assert_int_eq(aclrtLaunchCallback(count_run, NULL, ACL_CALLBACK_BLOCK, stream),
                     ACL_ERROR_RT_SOCKET_CLOSE);
    OK(aclFinalize());
    OK(aclInit(NULL));
    expect_counts(0, 2);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
}
END_TEST

static int count_threads(void)
{
    char line[128];
    int n = -1;
    FILE *f = fopen("/proc/self/status", "re");

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "Threads: %d", &n) == 1)
            break;
    fclose(f);
    return n;
}

/* A thread that was joined may be counted for a moment more. */
static void await_threads(int n)
{
    uint64_t give_up = now_ns() + UINT64_C(20000000000);

    while (count_threads() != n) {
        ck_assert_msg(now_ns() < give_up, "%d threads, expected %d", count_threads(), n);
        wait_a_moment();
    }
}

START_TEST(npud_dies_host_functions)
{
    int before;

    open_device();
    before = count_threads() - 1;
    OK(aclrtLaunchHostFunc(stream, count_run, NULL));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtLaunchHostFunc(stream, block_in_callback, NULL));
    OK(aclrtLaunchHostFunc(stream, count_run, NULL));
    latch_wait(&entered);
    npud_kill();
    ck_assert_int_eq(aclrtSynchronizeStream(stream), ACL_ERROR_RT_SOCKET_CLOSE);
    latch_open(&leave);
    await_threads(before); /* the watcher has gone as well */
    expect_counts(2, 0);
}
END_TEST

/* --- host functions --- */

START_TEST(all_host_functions_run)
{
    aclrtContext c;
    int before;

    open_device();
    before = count_threads();
    for (int i = 0; i < 200; i++)
        OK(aclrtLaunchHostFunc(stream, count_run, NULL));
    OK(aclrtDestroyStream(stream)); /* waits for what is queued */
    expect_counts(200, 0);
    OK(aclrtCreateContext(&c, 0));
    for (int i = 0; i < 200; i++)
        OK(aclrtLaunchHostFunc(NULL, count_run, NULL));
    OK(aclrtDestroyContext(c));
    expect_counts(400, 0);
    await_threads(before + 1); /* the one of the primary context */
    OK(aclrtSetDevice(0));
    OK(aclrtLaunchHostFunc(other, count_run, NULL));
    OK(aclrtResetDeviceForce(0));
    expect_counts(401, 0);
    await_threads(before);
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

/* By force, what has not begun is discarded. */
START_TEST(host_functions_by_force)
{
    open_device();
    OK(aclrtLaunchHostFunc(stream, block_in_callback, NULL));
    for (int i = 0; i < 10; i++)
        OK(aclrtLaunchHostFunc(stream, count_run, NULL));
    latch_wait(&entered);
    latch_open(&leave);
    OK(aclrtDestroyStreamForce(stream));
    ck_assert_int_ge(atomic_load(&run), 1);
    OK(aclrtLaunchHostFunc(other, count_run, NULL)); /* its thread goes on */
    OK(aclrtSynchronizeStream(other));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

static void destroy_own_context(void *c)
{
    OK(aclrtDestroyContext(c));
    latch_open(&gone);
}

START_TEST(host_function_that_ends_its_context)
{
    aclrtContext c;
    int before;

    open_device();
    before = count_threads();
    OK(aclrtCreateContext(&c, 0));
    OK(aclrtLaunchHostFunc(NULL, destroy_own_context, c));
    latch_wait(&gone);
    await_threads(before);
    OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

/* --- coming and going --- */

/* A thread that runs callbacks all the time, whether there is a session or not. */
START_TEST(init_to_finalize_again_and_again)
{
    struct reporter r;

    reporter_start(&r, 5);
    for (int i = 0; i < 60; i++) {
        open_device();
        OK(aclrtSubscribeReport(reporter_id(&r), stream));
        launch_callback(stream, true);
        launch_callback(stream, false);
        if (i % 2)
            OK(aclrtSynchronizeStream(stream));
        if (i % 3 == 0)
            OK(aclrtUnSubscribeReport(reporter_id(&r), stream));
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
        ck_assert_int_eq(atomic_load(&run) + atomic_load(&dropped), 2);
    }
    npud_expect_empty();
    reporter_stop(&r);
}
END_TEST

/* A session that aclFinalize closes at this moment is none, and not one that npud has ended. */
START_TEST(not_subscribed_beside_finalize)
{
    struct reporter r[2];

    for (int i = 0; i < 2; i++)
        reporter_start(&r[i], 5);
    for (unsigned i = 0; i < choose_rounds(4000, 100000); i++) {
        OK(aclInit(NULL));
        OK(aclrtSetDevice(0));
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
    }
    for (int i = 0; i < 2; i++) {
        reporter_stop(&r[i]);
        ck_assert_int_eq(atomic_load(&r[i].result), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    }
}
END_TEST

static _Atomic int run_of[4000], dropped_of[4000];

static void run_this(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static void drop_this(void *arg)
{
    atomic_fetch_add(&dropped_of[(_Atomic int *)arg - run_of], 1);
}

static _Atomic bool churning;

/*
 * Ends the subscription and makes it anew, or destroys the stream and makes another, all the time.
 */
static void *change_subscriptions(void *arg)
{
    uint64_t thread = reporter_id(arg);
    unsigned seed = 1;

    OK(aclrtSetDevice(0));
    while (atomic_load(&churning)) {
        aclrtStream s;

        OK(aclrtUnSubscribeReport(thread, stream));
        OK(aclrtSubscribeReport(thread, stream));
        OK(aclrtCreateStream(&s));
        OK(aclrtSubscribeReport(thread, s));
        launch_callback(s, true);
        launch_callback(s, false);
        if (rand_r(&seed) % 2)
            OK(aclrtDestroyStreamForce(s));
        else
            OK(aclrtDestroyStream(s));
    }
    return NULL;
}

START_TEST(each_runs_or_is_dropped_once)
{
    struct reporter r;
    pthread_t t;
    unsigned seed = 1;
    int ran = 0;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    atomic_store(&churning, true);
    ck_assert_int_eq(pthread_create(&t, NULL, change_subscriptions, &r), 0);
    for (int i = 0; i < 4000; i++) {
        int error;

        do {
            error = aclnpudLaunchCallbackWithDrop(run_this, drop_this, &run_of[i],
                                                  rand_r(&seed) % 2, stream);
            ck_assert(error == 0 || error == ACL_ERROR_RT_STREAM_NO_CB_REG);
        } while (error != 0);
        if (i % 16 == 0)
            OK(aclrtSynchronizeStream(stream)); /* however it ends, it ends */
    }
    atomic_store(&churning, false);
    pthread_join(t, NULL);
    OK(aclrtSynchronizeStream(stream));
    reporter_leave(&r, stream);
    for (int i = 0; i < 4000; i++) {
        ck_assert_int_eq(run_of[i] + dropped_of[i], 1);
        ran += run_of[i];
    }
    ck_assert_int_gt(ran, 0);
}
END_TEST

/* --- processes --- */

static int handle_pipe[2];

/* A process that stands at a callback, with an exported record behind it. */
static int client_with_callbacks(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;

    (void)arg;
    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtSubscribeReport(get_own_thread(), other));
    launch_callback(other, false);
    launch_callback(stream, true);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(e, stream));
    OK(aclrtLaunchHostFunc(probe, count_run, NULL));
    OK(aclrtIpcGetEventHandle(e, &handle));
    await_callback(stream);
    ck_assert_int_eq(write(handle_pipe[1], &handle, sizeof(handle)), sizeof(handle));
    turn_tell(&to_parent);
    pause();
    return 0;
}

START_TEST(client_dies)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;
    pid_t pid;

    turn_init(&to_parent);
    ck_assert_int_eq(pipe(handle_pipe), 0);
    pid = child_start(client_with_callbacks, NULL);
    turn_await(&to_parent);
    ck_assert_int_eq(read(handle_pipe[0], &handle, sizeof(handle)), sizeof(handle));
    open_device();
    OK(aclrtIpcOpenEventHandle(handle, &e));
    OK(aclrtStreamWaitEvent(stream, e));
    ck_assert(!drains(stream));
    child_kill(pid);
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

/* In the child the library is not set up; it leaves aclrtProcessReport at once. */
static void fork_in_callback(void *arg)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    *(pid_t *)arg = pid;
    if (pid == 0)
        alarm(300);
}

START_TEST(fork_in_a_callback)
{
    pid_t pid = -1;
    int r, status;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtLaunchCallback(fork_in_callback, &pid, ACL_CALLBACK_BLOCK, stream));
    launch_callback(stream, true);
    r = aclrtProcessReport(LIMIT_MS);
    if (pid == 0)
        _exit(r == ACL_ERROR_UNINITIALIZE && aclrtProcessReport(-1) == ACL_ERROR_UNINITIALIZE &&
                      atomic_load(&run) == 0
                  ? 0
                  : 1);
    OK(r);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    while (atomic_load(&run) < 1)
        OK(aclrtProcessReport(LIMIT_MS));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

#ifndef __SANITIZE_THREAD__
/*
 * A child that begins anew, with a thread of the parent asleep in aclrtProcessReport and callbacks
 * pending.
 */
static int child_begins_anew(void)
{
    if (aclrtProcessReport(-1) != ACL_ERROR_UNINITIALIZE ||
        aclrtLaunchCallback(count_run, NULL, ACL_CALLBACK_BLOCK, stream) != ACL_ERROR_UNINITIALIZE)
        return 1;
    open_device();
    if (aclrtProcessReport(-1) != ACL_ERROR_RT_THREAD_SUBSCRIBE)
        return 2;
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    launch_callback(stream, true);
    OK(aclrtProcessReport(LIMIT_MS));
    OK(aclrtSynchronizeStream(stream));
    expect_counts(1, 0);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}

START_TEST(fork_beside_a_sleeper)
{
    struct reporter r;
    pid_t pid;
    int status;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    OK(aclrtSubscribeReport(get_own_thread(), other));
    launch_callback(other, true);
    await_sleeper("aclrtProcessReport");
    pid = fork();
    if (pid == 0)
        _exit(child_begins_anew());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    expect_counts(0, 0);
    launch_callback(stream, true);
    OK(aclrtSynchronizeStream(stream));
    expect_counts(1, 0);
    OK(aclrtProcessReport(LIMIT_MS));
    expect_counts(2, 0);
    reporter_leave(&r, stream);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("callback life");
    TCase *tc = suite_case(suite, "callback life", 100, npud_setup, npud_teardown);

    tcase_add_loop_test(tc, unsubscribing, 0, PENDINGS);
    tcase_add_loop_test(tc, destroying_the_stream, 0, PENDINGS);
    tcase_add_loop_test(tc, destroying_it_by_force, 0, PENDINGS);
    tcase_add_loop_test(tc, resetting_the_device, 0, 2 * PENDINGS);
    tcase_add_loop_test(tc, destroying_the_context, 0, PENDINGS);
    tcase_add_loop_test(tc, who_ends_it_waits_for_the_one_that_runs, 0, ENDINGS);
    tcase_add_loop_test(tc, in_the_callback_itself, 0, ENDINGS);
    tcase_add_test(tc, callback_that_exits_its_thread);
    tcase_add_test(tc, submitter_in_a_full_ring);
    tcase_add_loop_test(tc, sleeper_is_woken, 0, ENDINGS);
    tcase_add_test(tc, one_of_two_streams_is_no_reason);
    tcase_add_test(tc, all_host_functions_run);
    tcase_add_test(tc, host_functions_by_force);
    tcase_add_test(tc, host_function_that_ends_its_context);
    tcase_add_test(tc, init_to_finalize_again_and_again);
    tcase_add_test(tc, not_subscribed_beside_finalize);
    tcase_add_test(tc, each_runs_or_is_dropped_once);
    tcase_add_test(tc, client_dies);
    tcase_add_test(tc, fork_in_a_callback);
#ifndef __SANITIZE_THREAD__ /* which allows no new threads in a child of a process with several */
    tcase_add_test(tc, fork_beside_a_sleeper);
#endif
    tc = suite_case(suite, "killed npud", 100, npud_setup, NULL);
    tcase_add_test(tc, npud_dies);
    tcase_add_test(tc, npud_dies_host_functions);
    return run_suite(suite);
}
