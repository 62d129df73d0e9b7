/*
 * Host callbacks: what each call answers, in which order callbacks run, what a stream does
 * meanwhile. Their ends (unsubscribing, destroying, dying) are in test_callback_life.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"
#include "reporter.h"

static aclrtStream stream, other, probe;

static void open_device(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&probe));
}

static uint64_t get_own_thread(void)
{
    return (uint64_t)pthread_self();
}

static void count_call(void *n)
{
    ++*(_Atomic int *)n;
}

/* --- error codes --- */

START_TEST(parameters)
{
    aclrtStream stale;
    _Atomic int n = 0;

    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSubscribeReport(get_own_thread(), NULL));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtUnSubscribeReport(get_own_thread(), NULL));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, NULL));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchHostFunc(NULL, count_call, &n));
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(1));
    open_device();
    OK(aclrtCreateStream(&stale));
    OK(aclrtDestroyStream(stale));

    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtLaunchCallback(count_call, &n, 2, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtLaunchCallback(count_call, &n, -1, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stale));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSubscribeReport(get_own_thread(), stale));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtUnSubscribeReport(get_own_thread(), stale));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSubscribeReport(get_own_thread(), &n));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchHostFunc(stream, NULL, NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchHostFunc(stale, count_call, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtProcessReport(0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtProcessReport(-2));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtProcessReport(INT32_MIN));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtProcessHostFunc(0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSubscribeHostFunc(get_own_thread(), NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtUnSubscribeHostFunc(get_own_thread(), NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclnpudLaunchCallbackWithDrop(NULL, count_call, &n, ACL_CALLBACK_BLOCK, stream));
    ck_assert_int_eq(n, 0);
}
END_TEST

/* The first and the third row of the reference's table, and the codes of unsubscribing. */
START_TEST(without_a_subscriber)
{
    uint64_t t;
    _Atomic int n = 0;

    open_device();
    FAILS(ACL_ERROR_RT_STREAM_NO_CB_REG,
          aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    FAILS(ACL_ERROR_RT_STREAM_NO_CB_REG,
          aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_NO_BLOCK, NULL));
    FAILS(ACL_ERROR_RT_STREAM_NO_CB_REG,
          aclnpudLaunchCallbackWithDrop(count_call, count_call, &n, ACL_CALLBACK_BLOCK, stream));
    ck_assert(idle(stream)); /* nothing was enqueued */
    t = now_ns();
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(100000));
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    ck_assert_uint_lt(now_ns() - t, UINT64_C(20000000000)); /* at once, not after its time */
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(get_own_thread(), stream));
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtUnSubscribeReport(get_own_thread() + 64, stream));
    OK(aclrtUnSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_STREAM_NO_CB_REG,
          aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(who_may_subscribe)
{
    aclrtContext first, second;
    aclrtStream there;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(get_own_thread() + 64, stream));
    OK(aclrtSubscribeReport(get_own_thread(), other)); /* many streams of one device */
    OK(aclrtSubscribeReport(get_own_thread(), NULL));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(get_own_thread(), NULL));
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 1));
    OK(aclrtCreateStream(&there));
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtSubscribeReport(get_own_thread(), there));
    OK(aclrtSubscribeReport(get_own_thread() + 64, there));
    OK(aclrtUnSubscribeReport(get_own_thread() + 64, there));
    /* A thread that has lost its last stream may serve another device. */
    OK(aclrtUnSubscribeReport(get_own_thread(), stream));
    OK(aclrtUnSubscribeReport(get_own_thread(), other));
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtSubscribeReport(get_own_thread(), there));
    OK(aclrtSetCurrentContext(first));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT,
          aclrtLaunchCallback(count_call, NULL, ACL_CALLBACK_BLOCK, there));
    OK(aclrtUnSubscribeReport(get_own_thread(), NULL));
    OK(aclrtSubscribeReport(get_own_thread(), there));
}
END_TEST

START_TEST(number_of_threads)
{
    static aclrtStream s[1025];

    open_device();
    for (int i = 0; i < 1025; i++)
        OK(aclrtCreateStream(&s[i]));
    for (int i = 0; i < 1024; i++)
        OK(aclrtSubscribeReport(1000 + (uint64_t)i, s[i]));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSubscribeReport(5000, s[1024]));
    OK(aclrtSubscribeReport(1000, s[1024]));
    OK(aclrtUnSubscribeReport(1017, s[17]));
    OK(aclrtSubscribeReport(5000, s[17]));
}
END_TEST

START_TEST(the_two_mechanisms_do_not_mix)
{
    _Atomic int n = 0;

    open_device();
    OK(aclrtLaunchHostFunc(stream, count_call, &n));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(get_own_thread(), stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE,
          aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE,
          aclrtSubscribeReport(get_own_thread(), stream)); /* for good */
    OK(aclrtSubscribeReport(get_own_thread(), other));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchHostFunc(other, count_call, &n));
    OK(aclrtUnSubscribeReport(get_own_thread(), other));
    OK(aclrtLaunchHostFunc(other, count_call, &n));
    OK(aclrtSynchronizeStream(other));
    ck_assert_int_eq(n, 2);
}
END_TEST

/* --- one thread that launches and runs --- */

START_TEST(runs_once_with_its_argument)
{
    _Atomic int n = 0;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    for (int type = 0; type < 2; type++) {
        OK(aclrtLaunchCallback(count_call, &n, type, stream));
        OK(aclrtProcessReport(LIMIT_MS));
        ck_assert_int_eq(n, type + 1);
        FAILS(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
    }
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(n, 2);
}
END_TEST

/*
 * BLOCK stalls the stream while no thread calls aclrtProcessReport(). NO_BLOCK does not, and the
 * callback stays.
 */
START_TEST(nobody_calls_process_report)
{
    aclrtEvent e;
    aclrtEventRecordedStatus status;
    _Atomic int n = 0;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtSubscribeReport(get_own_thread(), other));
    OK(aclrtCreateEvent(&e));
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_NO_BLOCK, other));
    OK(aclrtSynchronizeStream(other)); /* the stream goes on */
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtRecordEvent(e, stream));
    await_callback(stream);
    ck_assert(!idle(stream));
    OK(aclrtQueryEventStatus(e, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, BLOCKED_MS),
                     ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    ck_assert_int_eq(n, 0);
    OK(aclrtProcessReport(LIMIT_MS)); /* both are ready: one batch */
    ck_assert_int_eq(n, 2);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static void *do_nothing(void *arg)
{
    (void)arg;
    return NULL;
}

/* A thread that is gone runs nothing; the stream waits until the subscription is ended. */
START_TEST(thread_has_exited)
{
    pthread_t t;
    _Atomic int n = 0, dropped = 0;

    open_device();
    ck_assert_int_eq(pthread_create(&t, NULL, do_nothing, NULL), 0);
    OK(aclrtSubscribeReport((uint64_t)t, stream));
    OK(aclnpudLaunchCallbackWithDrop(count_call, count_call, &n, ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    pthread_join(t, NULL);
    OK(aclrtUnSubscribeReport((uint64_t)t, stream));
    ck_assert_int_eq(n, 1); /* the drop */
    OK(aclrtSubscribeReport((uint64_t)t, stream));
    OK(aclnpudLaunchCallbackWithDrop(count_call, count_call, &dropped, ACL_CALLBACK_BLOCK, stream));
    await_callback(stream);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    OK(aclrtUnSubscribeReport((uint64_t)t, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(dropped, 1);
}
END_TEST

START_TEST(batch_is_what_is_ready)
{
    aclrtEvent gate;
    _Atomic int n = 0;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtSubscribeReport(get_own_thread(), other));
    for (int i = 0; i < 5; i++)
        OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_NO_BLOCK, other));
    gate = stream_hold(other);
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_NO_BLOCK, other));
    OK(aclrtSynchronizeStream(stream));
    engine_turn(probe);
    OK(aclrtProcessReport(-1));
    ck_assert_int_eq(n, 6); /* not the one behind the gate */
    FAILS(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
    stream_let_go(gate);
    OK(aclrtProcessReport(-1));
    ck_assert_int_eq(n, 7);
}
END_TEST

/* A callback of a turn that takes part in it. */
static char turn_text[16];

static void add_mark(void *mark)
{
    strcat(turn_text, mark);
}

/* Launches another one in its own stream, and ends the subscription of the third stream. */
static void change_turn(void *third)
{
    add_mark("1");
    OK(aclrtLaunchCallback(add_mark, "n", ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtUnSubscribeReport(get_own_thread(), third));
}

/*
 * What becomes ready during a turn waits for the next one, also in a stream that had its turn; what
 * is dropped in a turn never runs; each stream runs all that it has.
 */
START_TEST(a_turn_is_what_was_ready_at_its_beginning)
{
    aclrtStream third, *const streams[] = {&stream, &other, &third};

    open_device();
    OK(aclrtCreateStream(&third));
    for (int i = 0; i < 3; i++)
        OK(aclrtSubscribeReport(get_own_thread(), *streams[i]));
    OK(aclrtLaunchCallback(change_turn, third, ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtLaunchCallback(add_mark, "2", ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtLaunchCallback(add_mark, "3", ACL_CALLBACK_NO_BLOCK, other));
    OK(aclnpudLaunchCallbackWithDrop(add_mark, add_mark, "d", ACL_CALLBACK_NO_BLOCK, third));
    for (int i = 0; i < 3; i++)
        OK(aclrtSynchronizeStream(*streams[i]));
    engine_turn(probe);
    turn_text[0] = '\0';
    OK(aclrtProcessReport(-1));
    ck_assert_str_eq(turn_text, "1d23");
    OK(aclrtProcessReport(-1));
    ck_assert_str_eq(turn_text, "1d23n");
    FAILS(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
}
END_TEST

/* A failed task in front of it, in continue mode. */
START_TEST(runs_behind_a_failure)
{
    _Atomic int n = 0;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclnpudLaunchDelay(1, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtProcessReport(LIMIT_MS));
    ck_assert_int_eq(n, 1);
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
}
END_TEST

/* --- time --- */

START_TEST(timeout_is_exact)
{
    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    for (int ms = 1; ms <= 64; ms *= 4) {
        uint64_t best = UINT64_MAX;

        /*
         * Never before its time; and soon after it, once in a while at least, on a machine with
         * other work.
         */
        for (int i = 0; i < 20 && best > 2000000; i++) {
            uint64_t t = now_ns(), took;

            FAILS(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(ms));
            took = now_ns() - t;
            ck_assert_uint_ge(took, (uint64_t)ms * 1000000);
            if (took - (uint64_t)ms * 1000000 < best)
                best = took - (uint64_t)ms * 1000000;
        }
        ck_assert_msg(best <= 2000000, "%d ms: %llu us too late", ms,
                      (unsigned long long)best / 1000);
    }
}
END_TEST

START_TEST(idle_thread_uses_no_cpu)
{
    struct reporter r;
    struct timespec cpu[2];
    clockid_t clock;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    await_sleeper("aclrtProcessReport");
    ck_assert_int_eq(pthread_getcpuclockid(r.thread, &clock), 0);
    clock_gettime(clock, &cpu[0]);
    OK(aclnpudLaunchDelay(300000, 0, other));
    OK(aclrtSynchronizeStream(other));
    clock_gettime(clock, &cpu[1]);
    ck_assert_int_eq(cpu[0].tv_sec, cpu[1].tv_sec);
    ck_assert_int_eq(cpu[0].tv_nsec, cpu[1].tv_nsec);
    reporter_leave(&r, stream);
    ck_assert_int_eq(r.result, ACL_ERROR_RT_THREAD_SUBSCRIBE);
}
END_TEST

/* --- what streams do meanwhile --- */

static struct latch entered = LATCH, leave = LATCH;

static void block_in_callback(void *arg)
{
    (void)arg;
    latch_open(&entered);
    latch_wait(&leave);
}

static aclrtEventRecordedStatus status_of(aclrtEvent e)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(e, &status));
    return status;
}

static void stream_is_held(bool block)
{
    struct reporter r;
    aclrtEvent before, after;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    OK(aclrtCreateEvent(&before));
    OK(aclrtCreateEvent(&after));
    OK(aclnpudLaunchDelay(2000, 0, stream));
    OK(aclrtRecordEvent(before, stream));
    OK(aclrtLaunchCallback(block_in_callback, NULL,
                           block ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtRecordEvent(after, stream));
    OK(aclrtStreamWaitEvent(other, after));
    latch_wait(&entered);
    ck_assert_int_eq(status_of(before), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    if (block) {
        engine_turn(probe);
        ck_assert_int_eq(status_of(after), ACL_EVENT_RECORDED_STATUS_NOT_READY);
        ck_assert(!idle(stream));
        ck_assert(!idle(other));
        ck_assert(!drains(other));
    } else {
        OK(aclrtSynchronizeStream(other));
        OK(aclrtSynchronizeStream(stream)); /* before fn has returned */
        ck_assert_int_eq(status_of(after), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    }
    latch_open(&leave);
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream));
    reporter_leave(&r, stream);
    ck_assert_int_eq(r.callbacks, 1);
}

START_TEST(block_holds_the_stream)
{
    stream_is_held(true);
}
END_TEST

START_TEST(no_block_does_not)
{
    stream_is_held(false);
}
END_TEST

/*
 * With a sleeping engine and without, the stream goes on as soon as the callback has returned, not
 * at the next doorbell.
 */
START_TEST(goes_on_when_it_returns)
{
    struct reporter r;
    _Atomic int n = 0;

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    for (int i = 0; i < 2000; i++) {
        OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
        ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS), 0);
        ck_assert_int_eq(n, i + 1); /* synchronise returns after fn */
    }
    reporter_leave(&r, stream);
}
END_TEST

/* --- load --- */

#define STREAMS  8
#define THREADS  2
#define LAUNCHES 3000

static struct lane {
    aclrtStream stream;
    pthread_t launcher;
    _Atomic uint32_t next;    /* number of the callback that must be next */
    _Atomic uint32_t running; /* of this thread's callbacks */
    _Atomic uint32_t bad;     /* npud orders it before a synchronise; TSan cannot see npud */
} lane[STREAMS];

static _Atomic int in_thread[THREADS];

struct item {
    struct lane *lane;
    uint32_t number;
};
static struct item items[STREAMS][LAUNCHES];

static void run_item(void *arg)
{
    struct item *item = arg;
    int thread = (int)(item->lane - lane) % THREADS;

    item->lane->bad += atomic_fetch_add(&in_thread[thread], 1) != 0;
    item->lane->bad += atomic_load(&item->lane->next) != item->number;
    atomic_store(&item->lane->next, item->number + 1);
    atomic_fetch_sub(&in_thread[thread], 1);
}

static void *launch_all(void *arg)
{
    struct lane *l = arg;
    unsigned seed = (unsigned)(l - lane) + 1;

    OK(aclrtSetDevice(0));
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        struct item *item = &items[l - lane][i];
        bool block = rand_r(&seed) % 2 || i == LAUNCHES - 1;

        *item = (struct item){l, i};
        OK(aclrtLaunchCallback(run_item, item, block, l->stream));
        if (rand_r(&seed) % 8 == 0)
            OK(aclnpudLaunchDelay(1, 0, l->stream));
        if (block && rand_r(&seed) % 64 == 0) {
            OK(aclrtSynchronizeStream(l->stream));
            ck_assert_uint_eq(atomic_load(&l->next), i + 1);
        }
    }
    return NULL;
}

START_TEST(order_and_number_under_load)
{
    struct reporter r[THREADS];

    open_device();
    for (int t = 0; t < THREADS; t++)
        reporter_start(&r[t], t ? -1 : 50);
    for (int i = 0; i < STREAMS; i++) {
        OK(aclrtCreateStream(&lane[i].stream));
        OK(aclrtSubscribeReport(reporter_id(&r[i % THREADS]), lane[i].stream));
    }
    for (int i = 0; i < STREAMS; i++)
        ck_assert_int_eq(pthread_create(&lane[i].launcher, NULL, launch_all, &lane[i]), 0);
    for (int i = 0; i < STREAMS; i++)
        pthread_join(lane[i].launcher, NULL);
    for (int i = 0; i < STREAMS; i++) {
        OK(aclrtSynchronizeStream(lane[i].stream)); /* the last one blocks */
        ck_assert_uint_eq(atomic_load(&lane[i].bad), 0);
        ck_assert_uint_eq(atomic_load(&lane[i].next), LAUNCHES);
        OK(aclrtUnSubscribeReport(reporter_id(&r[i % THREADS]), lane[i].stream));
    }
    for (int t = 0; t < THREADS; t++)
        reporter_stop(&r[t]);
}
END_TEST

/* --- host functions --- */

static _Atomic int host_inside, host_overlaps, host_runs;
static _Atomic pthread_t host_thread[2];

static void host_fn(void *arg)
{
    atomic_fetch_add(&host_overlaps, atomic_fetch_add(&host_inside, 1) != 0);
    host_thread[*(int *)arg] = pthread_self();
    sched_yield();
    atomic_fetch_add(&host_runs, 1);
    atomic_fetch_sub(&host_inside, 1);
}

START_TEST(host_functions_never_at_the_same_time)
{
    static int of_context[2] = {0, 1};
    aclrtStream s[4];
    aclrtContext c;

    open_device();
    for (int i = 0; i < 4; i++)
        OK(aclrtCreateStream(&s[i]));
    for (int n = 0; n < 500; n++)
        for (int i = 0; i < 4; i++)
            OK(aclrtLaunchHostFunc(s[i], host_fn, &of_context[0]));
    OK(aclrtSynchronizeDevice());
    ck_assert_int_eq(host_runs, 2000); /* a synchronise returns after fn */
    ck_assert_int_eq(host_overlaps, 0);
    ck_assert(!pthread_equal(host_thread[0], pthread_self()));
    OK(aclrtCreateContext(&c, 0));
    OK(aclrtLaunchHostFunc(NULL, host_fn, &of_context[1]));
    OK(aclrtSynchronizeStream(NULL));
    ck_assert(!pthread_equal(host_thread[0], host_thread[1])); /* one per context */
    OK(aclrtDestroyContext(c));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

static aclrtEvent recorded_behind;

static void check_held(void *arg)
{
    atomic_store((_Atomic int *)arg, (int)status_of(recorded_behind));
}

/* Later tasks wait for a host function, too. */
START_TEST(host_function_holds_the_stream)
{
    _Atomic int seen = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    aclrtEvent gate;

    open_device();
    OK(aclrtCreateEvent(&recorded_behind));
    gate = stream_hold(stream);
    OK(aclrtLaunchHostFunc(stream, check_held, &seen));
    OK(aclrtRecordEvent(recorded_behind, stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(seen, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    ck_assert_int_eq(status_of(recorded_behind), ACL_EVENT_RECORDED_STATUS_COMPLETE);
}
END_TEST

static void *process_host_func(void *arg)
{
    while (!latch_is_open(arg)) {
        int r = aclrtProcessHostFunc(10);

        ck_assert(r == 0 || r == ACL_ERROR_RT_REPORT_TIMEOUT || r == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    }
    return NULL;
}

START_TEST(host_func_family)
{
    struct latch stop = LATCH;
    pthread_t t;
    _Atomic int n = 0;

    open_device();
    ck_assert_int_eq(pthread_create(&t, NULL, process_host_func, &stop), 0);
    OK(aclrtSubscribeHostFunc((uint64_t)t, stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeHostFunc((uint64_t)t, stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchHostFunc(stream, count_call, &n));
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(n, 1);
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtUnSubscribeHostFunc(1, stream));
    OK(aclrtUnSubscribeHostFunc((uint64_t)t, stream));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeHostFunc((uint64_t)t, stream));
    latch_open(&stop);
    pthread_join(t, NULL);
}
END_TEST

/* --- what npud tells --- */

static const Npud__WaitRow *row_of_stream(const Npud__Report *r, aclrtStream s)
{
    int32_t id;

    OK(aclrtStreamGetId(s, &id));
    for (size_t i = 0; i < r->n_waits; i++)
        if (r->waits[i]->stream == id)
            return r->waits[i];
    ck_abort_msg("no row");
}

START_TEST(waits_name_process_and_thread)
{
    struct reporter r;
    Npud__Report *report;
    const Npud__WaitRow *row;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread() + 64, other));
    OK(aclrtLaunchCallback(block_in_callback, NULL, ACL_CALLBACK_BLOCK, other));
    await_callback(other);
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    await_sleeper("aclrtProcessReport");
    OK(aclrtLaunchCallback(block_in_callback, NULL, ACL_CALLBACK_BLOCK, stream));
    latch_wait(&entered);
    await_callback(stream);
    report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    row = row_of_stream(report, other);
    ck_assert_int_eq(row->blocker_pid, getpid());
    ck_assert_uint_eq(row->blocker_thread, 0);
    ck_assert_ptr_nonnull(strstr(row->blocker, "no thread has come"));
    row = row_of_stream(report, stream);
    ck_assert_str_eq(row->waits_for, "callback 1 to return");
    ck_assert_int_eq(row->blocker_pid, getpid());
    ck_assert_uint_ne(row->blocker_thread, 0);
    ck_assert_uint_ne(row->blocker_thread, (uint32_t)gettid());
    ck_assert_uint_eq(report->n_deadlocks, 0);
    npud__report__free_unpacked(report, NULL);
    report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    for (size_t i = 0, n = 0; i <= report->n_streams; i++) {
        if (i == report->n_streams)
            ck_assert_uint_eq(n, 2);
        else
            n += strstr(report->streams[i]->waits_for, "callback 1") != NULL;
    }
    npud__report__free_unpacked(report, NULL);
    latch_open(&leave);
    OK(aclrtSynchronizeStream(stream));
    reporter_leave(&r, stream);
    OK(aclrtUnSubscribeReport(get_own_thread() + 64, other));
}
END_TEST

static void synchronize_own(void *arg)
{
    aclrtSetDevice(0);
    *(int *)arg = aclrtSynchronizeStream(stream);
}

static bool deadlock_found(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool found = r->n_deadlocks == 1 && strstr(r->deadlocks[0]->members, "callback 1 to return");

    ck_assert_uint_le(r->n_deadlocks, 1);
    npud__report__free_unpacked(r, NULL);
    return found;
}

/* What the reference warns of: a callback that waits for its own stream. */
START_TEST(deadlock_of_a_callback)
{
    struct reporter r;
    int result = -1;
    uint64_t give_up = now_ns() + UINT64_C(60000000000);

    open_device();
    reporter_start(&r, -1);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    OK(aclrtLaunchCallback(synchronize_own, &result, ACL_CALLBACK_BLOCK, stream));
    while (!deadlock_found())
        ck_assert(now_ns() < give_up);
    npud_kill();
    reporter_join(&r);
    ck_assert_int_eq(result, ACL_ERROR_RT_SOCKET_CLOSE);
}
END_TEST

static void call_inside(void *arg)
{
    int *result = arg;

    result[0] = aclrtProcessReport(1000);
    result[1] = aclrtProcessReport(-1);
}

START_TEST(process_report_in_a_callback)
{
    int result[2] = {0};
    _Atomic int n = 0;

    open_device();
    OK(aclrtSubscribeReport(get_own_thread(), stream));
    OK(aclrtLaunchCallback(call_inside, result, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtLaunchCallback(count_call, &n, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtProcessReport(LIMIT_MS));
    ck_assert_int_eq(result[0], ACL_ERROR_RT_THREAD_SUBSCRIBE);
    ck_assert_int_eq(result[1], ACL_ERROR_RT_THREAD_SUBSCRIBE);
    OK(aclrtProcessReport(LIMIT_MS));
    ck_assert_int_eq(n, 1);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("callbacks");
    TCase *tc = suite_case(suite, "callbacks", 100, npud_setup, npud_teardown);

    tcase_add_test(tc, parameters);
    tcase_add_test(tc, without_a_subscriber);
    tcase_add_test(tc, who_may_subscribe);
    tcase_add_test(tc, number_of_threads);
    tcase_add_test(tc, the_two_mechanisms_do_not_mix);
    tcase_add_test(tc, runs_once_with_its_argument);
    tcase_add_test(tc, nobody_calls_process_report);
    tcase_add_test(tc, thread_has_exited);
    tcase_add_test(tc, batch_is_what_is_ready);
    tcase_add_test(tc, a_turn_is_what_was_ready_at_its_beginning);
    tcase_add_test(tc, runs_behind_a_failure);
    tcase_add_test(tc, timeout_is_exact);
    tcase_add_test(tc, idle_thread_uses_no_cpu);
    tcase_add_test(tc, block_holds_the_stream);
    tcase_add_test(tc, no_block_does_not);
    tcase_add_test(tc, goes_on_when_it_returns);
    tcase_add_test(tc, order_and_number_under_load);
    tcase_add_test(tc, host_functions_never_at_the_same_time);
    tcase_add_test(tc, host_function_holds_the_stream);
    tcase_add_test(tc, host_func_family);
    tcase_add_test(tc, waits_name_process_and_thread);
    tcase_add_test(tc, process_report_in_a_callback);
    tc = suite_case(suite, "killed npud", 100, npud_setup, NULL);
    tcase_add_test(tc, deadlock_of_a_callback);
    return run_suite(suite);
}
