/*
 * Streams that several threads use at the same moment: what a call says of a stream must be true at
 * some moment of the call, whatever another thread submits, aborts or destroys meanwhile. Each test
 * names the fault that it guards against.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/shm/ipc_page.h"
#include "proto/wire/npud.pb-c.h"
#include "reporter.h"
#include "tests/common/effort.h"
#include "tests/common/moment.h"

static aclrtStream stream, other;
static aclrtContext context;

static void open_device(void)
{
    streams_open(&stream, &other);
    OK(aclrtGetCurrentContext(&context));
}

/* --- callbacks --- */

struct observed {
    _Atomic unsigned complete; /* the stream was complete inside its own blocking callback */
    _Atomic unsigned ran;
};

static void look_at_own_stream(void *arg)
{
    struct observed *o = arg;
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    OK(aclrtSetCurrentContext(context));
    OK(aclrtStreamQuery(stream, &status));
    if (status == ACL_STREAM_STATUS_COMPLETE)
        atomic_fetch_add(&o->complete, 1);
    atomic_fetch_add(&o->ran, 1);
}

static void await_complete(aclrtStream s)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    for (;;) {
        OK(aclrtStreamQuery(s, &status));
        if (status == ACL_STREAM_STATUS_COMPLETE)
            return;
        wait_a_moment();
    }
}

/*
 * Guards against a callback that starts before its task counts as submitted: on an idle stream the
 * library hands the callback over itself, and its thread must not find the stream complete.
 * Threads of the program (0) and host functions (1).
 */
START_TEST(busy_in_its_own_callback)
{
    unsigned rounds = choose_effort(2000, 50000);
    struct observed o = {0};
    struct reporter r;

    open_device();
    if (_i == 0) {
        reporter_start(&r, -1);
        OK(aclrtSubscribeReport(reporter_id(&r), stream));
    }
    for (unsigned i = 0; i < rounds; i++) {
        if (_i == 0)
            OK(aclrtLaunchCallback(look_at_own_stream, &o, ACL_CALLBACK_BLOCK, stream));
        else
            OK(aclrtLaunchHostFunc(stream, look_at_own_stream, &o));
        await_complete(stream);
    }
    if (_i == 0)
        reporter_leave(&r, stream);
    ck_assert_uint_eq(o.ran, rounds);
    ck_assert_msg(o.complete == 0, "complete in %u of %u callbacks", o.complete, rounds);
}
END_TEST

/* --- streams that another thread is destroying --- */

#define GUARD_NS   UINT64_C(300000000000) /* against hanging only */
#define BLOCKED_NS UINT64_C(30000000)     /* how long a call is left to block that must block */
#define FAILURE    ACL_ERROR_RT_AICORE_EXCEPTION

struct call {
    pthread_t thread;
    aclError (*fn)(void *arg);
    void *arg;
    aclError result;
    _Atomic bool bound;
    _Atomic bool over;
};

static void *call_main(void *arg)
{
    struct call *c = arg;

    OK(aclrtSetCurrentContext(context));
    atomic_store(&c->bound, true);
    c->result = c->fn(c->arg);
    atomic_store(&c->over, true);
    return NULL;
}

/* In a thread with the context; the call begins soon. */
static void call_start(struct call *c, aclError (*fn)(void *), void *arg)
{
    *c = (struct call){.fn = fn, .arg = arg};
    ck_assert_int_eq(pthread_create(&c->thread, NULL, call_main, c), 0);
    while (!atomic_load(&c->bound))
        wait_a_moment();
}

static bool is_over(struct call *c, uint64_t ns)
{
    uint64_t until = now_ns() + ns;

    while (!atomic_load(&c->over) && now_ns() < until)
        wait_a_moment();
    return atomic_load(&c->over);
}

static void call_join(struct call *c)
{
    ck_assert_msg(is_over(c, GUARD_NS), "a call hangs");
    pthread_join(c->thread, NULL);
}

static aclError synchronise_device(void *unused)
{
    (void)unused;
    return aclrtSynchronizeDevice();
}

static aclError reset_device(void *device)
{
    return aclrtResetDevice(*(int32_t *)device);
}

/* A stream that stands still, and a thread that waits in aclrtDestroyStream for its end. */
static aclrtEvent destroy_held(struct call *destroyer)
{
    aclrtEvent gate = stream_hold(stream);

    call_start(destroyer, aclrtDestroyStream, stream);
    while (!npud_lists_sleeper(getpid(), "aclrtDestroyStream"))
        ;
    return gate;
}

/*
 * Guards against calls that pass over a stream because another thread is destroying it: its work
 * counts until it is over. aclrtSynchronizeDevice returned although the work went on.
 */
START_TEST(synchronise_a_device_whose_stream_is_destroyed)
{
    struct call destroyer;
    aclrtEvent gate;

    open_device();
    gate = destroy_held(&destroyer);
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(1));
    stream_let_go(gate);
    OK(aclrtSynchronizeDevice());
    call_join(&destroyer);
    ck_assert_int_eq(destroyer.result, 0);
}
END_TEST

/*
 * The same: aclrtDeviceTaskAbort left the stream alone, and the destroying thread waited for ever.
 */
START_TEST(abort_a_device_whose_stream_is_destroyed)
{
    struct call destroyer;

    open_device();
    destroy_held(&destroyer);
    OK(aclrtDeviceTaskAbort(0, 0));
    call_join(&destroyer);
    ck_assert_int_eq(destroyer.result, 0);
    OK(aclrtSynchronizeDevice());
}
END_TEST

/* The same: aclrtResetDevice freed the memory that the stream still worked on. */
START_TEST(reset_a_device_whose_stream_is_destroyed)
{
    struct call destroyer, resetter;
    aclrtContext second;
    int32_t device = 0;
    aclrtEvent gate;

    open_device();
    OK(aclrtCreateContext(&second, 0)); /* to open the gate from */
    OK(aclrtSetCurrentContext(context));
    gate = destroy_held(&destroyer);
    OK(aclrtSetCurrentContext(second));
    call_start(&resetter, reset_device, &device);
    ck_assert_msg(!is_over(&resetter, BLOCKED_NS), "aclrtResetDevice did not wait for the work");
    stream_let_go(gate);
    call_join(&resetter);
    ck_assert_int_eq(resetter.result, 0);
    call_join(&destroyer);
    ck_assert_int_eq(destroyer.result, 0);
    OK(aclrtDestroyContext(second));
    ck_assert_uint_eq(npud_ledger().streams, 0);
}
END_TEST

static struct latch begun = LATCH, destroying = LATCH;

static void reset_in_callback(void *arg)
{
    int32_t device = 0;

    latch_open(&begun);
    latch_wait(&destroying);
    OK(aclrtSetCurrentContext(context));
    *(aclError *)arg = reset_device(&device);
}

/*
 * A callback resets the device while another thread destroys the callback's stream: the destroying
 * thread waits for the callback, so the reset must not wait for that thread.
 */
START_TEST(reset_in_a_callback_of_a_stream_that_is_destroyed)
{
    struct call destroyer;
    struct reporter r;
    aclError result = -1;

    open_device();
    reporter_start(&r, 1000);
    OK(aclrtSubscribeReport(reporter_id(&r), stream));
    OK(aclrtLaunchCallback(reset_in_callback, &result, ACL_CALLBACK_BLOCK, stream));
    latch_wait(&begun);
    call_start(&destroyer, aclrtDestroyStream, stream);
    /* The handle dies, and then the thread waits for the callback. */
    for (int32_t id; aclrtStreamGetId(stream, &id) == 0;)
        wait_a_moment();
    latch_open(&destroying);
    call_join(&destroyer);
    ck_assert_int_eq(destroyer.result, 0);
    reporter_stop(&r);
    ck_assert_int_eq(result, 0);
    ck_assert_uint_eq(npud_ledger().streams, 0);
}
END_TEST

/* --- a slot that goes on to another stream --- */

/*
 * Guards against a failure that is reported by the wrong stream: a thread that synchronised a
 * destroyed stream took the failure of the next one with its control block.
 */
START_TEST(failure_stays_with_its_stream)
{
    unsigned rounds = choose_rounds(100, 3000), wrong = 0, lost = 0;
    struct call waiter[24]; /* the last one gets the CPU when the next stream has failed */
    unsigned n = sizeof(waiter) / sizeof(waiter[0]);

    open_device();
    for (unsigned i = 0; i < rounds; i++) {
        aclrtStream next;

        stream_hold(stream);
        for (unsigned k = 0; k < n; k++)
            call_start(&waiter[k], aclrtSynchronizeStream, stream);
        OK(aclrtDestroyStreamForce(stream));
        OK(aclrtCreateStream(&next));
        OK(aclnpudLaunchDelay(0, FAILURE, next));
        await_complete(next);
        for (unsigned k = 0; k < n; k++) {
            call_join(&waiter[k]);
            wrong += waiter[k].result == FAILURE;
        }
        lost += aclrtSynchronizeStream(next) != FAILURE;
        stream = next;
    }
    ck_assert_msg(wrong + lost == 0, "of %u: reported by another %u, not by its own %u", rounds,
                  wrong, lost);
}
END_TEST

static _Atomic(aclrtStream) to_stop; /* NULL: no more */

static aclError stop_again_and_again(void *arg)
{
    aclrtStream s;

    (void)arg;
    while ((s = atomic_load(&to_stop)))
        aclrtStreamStop(s);
    return 0;
}

/*
 * Guards against a stop that meets the next stream of the slot, when another thread has destroyed
 * the one that it was for.
 */
START_TEST(stop_of_a_stream_that_is_destroyed)
{
    unsigned rounds = choose_rounds(1000, 20000), wrong = 0;
    struct call stopper[2];

    open_device();
    atomic_store(&to_stop, stream);
    for (unsigned k = 0; k < 2; k++)
        call_start(&stopper[k], stop_again_and_again, NULL);
    for (unsigned i = 0; i < rounds; i++) {
        aclrtStream next;

        OK(aclrtDestroyStreamForce(stream));
        OK(aclrtCreateStream(&next));
        for (unsigned k = 0; k < 4; k++)
            OK(aclnpudLaunchDelay(20, 0, next));
        wrong += aclrtSynchronizeStream(next) != 0;
        stream = next;
        atomic_store(&to_stop, next);
    }
    atomic_store(&to_stop, NULL);
    for (unsigned k = 0; k < 2; k++)
        call_join(&stopper[k]);
    ck_assert_msg(wrong == 0, "%u of %u streams were stopped in place of another", wrong, rounds);
}
END_TEST

#define CREATORS 24

static aclError create_streams(void *go)
{
    aclrtStream s;

    while (!atomic_load((_Atomic bool *)go))
        wait_a_moment();
    return aclrtCreateStream(&s);
}

/*
 * Guards against a stream that is created while another thread resets the device, and then lives in
 * a dead context for ever.
 */
START_TEST(created_during_the_last_reset)
{
    unsigned rounds = choose_rounds(150, 6000), streams = 0;

    OK(aclInit(NULL));
    for (unsigned i = 0; i < rounds; i++) {
        _Atomic bool go = false;
        struct call creator[CREATORS];

        OK(aclrtSetDevice(0));
        OK(aclrtGetCurrentContext(&context));
        for (unsigned k = 0; k < CREATORS; k++)
            call_start(&creator[k], create_streams, (void *)&go);
        atomic_store(&go, true);
        for (unsigned n = 0; n < i % 8; n++)
            wait_a_moment();
        OK(aclrtResetDevice(0));
        for (unsigned k = 0; k < CREATORS; k++) {
            call_join(&creator[k]);
            if (creator[k].result != 0)
                ck_assert_int_eq(creator[k].result, ACL_ERROR_RT_CONTEXT_NULL);
        }
        streams = npud_ledger().streams;
        ck_assert_msg(streams == 0, "round %u: %u streams are left", i, streams);
    }
}
END_TEST

/* --- aborts --- */

#define HOUR    UINT64_C(3600000000) /* us */
#define WAITERS 6

static unsigned sleepers_in(const char *call)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    unsigned n = 0;

    for (size_t i = 0; i < r->n_waits; i++)
        n += strcmp(r->waits[i]->call, call) == 0;
    npud__report__free_unpacked(r, NULL);
    return n;
}

static void await_executed(aclrtEvent e)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        OK(aclrtQueryEventStatus(e, &status));
}

/*
 * Guards against an abort that is told to threads whose own work had been executed before: their
 * waits are over with 0, however late they wake. Threads that wait for an event (0), for a stream
 * (1), for a device (2).
 */
START_TEST(abort_behind_what_was_executed)
{
    static const char *const names[] = {"aclrtSynchronizeEvent", "aclrtSynchronizeStream",
                                        "aclrtSynchronizeDevice"};
    unsigned rounds = choose_effort(40, 2000), wrong = 0;
    struct call waiter[WAITERS];
    aclrtEvent executed;

    open_device();
    OK(aclrtCreateEvent(&executed));
    for (unsigned i = 0; i < rounds; i++) {
        aclrtEvent gate = stream_hold(stream);

        OK(aclrtRecordEvent(executed, stream));
        for (unsigned k = 0; k < WAITERS; k++)
            call_start(&waiter[k],
                       _i == 0   ? aclrtSynchronizeEvent
                       : _i == 1 ? aclrtSynchronizeStream
                                 : synchronise_device,
                       _i == 0 ? executed : stream);
        while (sleepers_in(names[_i]) < WAITERS)
            ;
        OK(aclnpudLaunchDelay(HOUR, 0, stream));
        stream_let_go(gate);
        await_executed(executed);
        OK(aclrtStreamAbort(stream));
        for (unsigned k = 0; k < WAITERS; k++) {
            call_join(&waiter[k]);
            wrong += waiter[k].result != 0;
        }
        OK(aclrtDestroyEvent(gate));
    }
    ck_assert_msg(wrong == 0, "%u of %u were told of an abort", wrong, rounds * WAITERS);
}
END_TEST

/*
 * A stream that waits for discarded work learns of the abort, whether it was parked on its wait
 * (0), or had the wait in its queue and comes to it when the other stream is idle again (1), or
 * gone (2). Waits for executed work, and waits that are queued after the abort, are over with 0.
 */
START_TEST(abort_below_a_queued_wait)
{
    aclrtEvent executed, discarded, gate = NULL;

    open_device();
    OK(aclrtCreateEvent(&executed));
    OK(aclrtCreateEvent(&discarded));
    OK(aclnpudLaunchDelay(1, 0, stream));
    OK(aclrtRecordEvent(executed, stream));
    OK(aclnpudLaunchDelay(HOUR, 0, stream));
    OK(aclrtRecordEvent(discarded, stream));
    if (_i != 0)
        gate = stream_hold(other);
    OK(aclrtStreamWaitEvent(other, executed));
    OK(aclrtStreamWaitEvent(other, discarded));
    await_executed(executed);
    if (_i == 0)
        FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(other, 1));
    OK(aclrtStreamAbort(stream));
    if (_i == 2)
        OK(aclrtDestroyStream(stream));
    if (gate)
        stream_let_go(gate);
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(other));
    OK(aclrtStreamWaitEvent(other, discarded));
    OK(aclrtStreamWaitEvent(other, executed));
    OK(aclrtSynchronizeStream(other));
}
END_TEST

#define RECORDS 400

struct progress {
    aclrtEvent event[RECORDS];
    bool seen[RECORDS]; /* complete */
    _Atomic bool stop;
};

static aclError watch_events(void *arg)
{
    struct progress *p = arg;
    aclrtEventRecordedStatus status;

    while (!atomic_load(&p->stop))
        for (unsigned i = 0; i < RECORDS; i++) {
            OK(aclrtQueryEventStatus(p->event[i], &status));
            p->seen[i] |= status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
        }
    return 0;
}

/*
 * Guards against an abort of a device that forgets records which were executed while it began, and
 * against discarded records that look complete for a moment. Each record is behind a task that
 * leaves a trace in memory: it is complete if the trace is there, and not otherwise.
 */
START_TEST(abort_forgets_what_was_discarded)
{
    static struct progress p;
    static uint64_t trace[RECORDS];
    unsigned rounds = choose_effort(100, 5000), forgotten = 0, invented = 0, undone = 0;
    uint64_t *memory;

    open_device();
    for (unsigned i = 0; i < RECORDS; i++)
        OK(aclrtCreateEvent(&p.event[i]));
    OK(aclrtMalloc((void **)&memory, sizeof(trace), ACL_MEM_MALLOC_HUGE_FIRST));
    for (unsigned round = 0; round < rounds; round++) {
        aclrtEvent gate = stream_hold(stream);
        struct call watcher;

        OK(aclrtMemset(memory, sizeof(trace), 0, sizeof(trace)));
        for (unsigned i = 0; i < RECORDS; i++) {
            /* In every second round the engine gets no further than to the middle. */
            if (round % 2 && i == RECORDS / 2)
                OK(aclnpudLaunchDelay(HOUR, 0, stream));
            OK(aclrtValueWrite(&memory[i], 1, 0, stream));
            OK(aclrtRecordEvent(p.event[i], stream));
        }
        memset(p.seen, 0, sizeof(p.seen));
        atomic_store(&p.stop, false);
        call_start(&watcher, watch_events, &p);
        stream_let_go(gate);
        if (round % 2)
            await_executed(p.event[RECORDS / 2 - 1]);
        OK(aclrtDeviceTaskAbort(0, 0));
        atomic_store(&p.stop, true);
        call_join(&watcher);
        OK(aclrtMemcpy(trace, sizeof(trace), memory, sizeof(trace), ACL_MEMCPY_DEVICE_TO_HOST));
        for (unsigned i = 0; i < RECORDS; i++) {
            aclrtEventRecordedStatus status;
            bool complete;

            OK(aclrtQueryEventStatus(p.event[i], &status));
            complete = status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
            /* The next task has begun, so this one was over. */
            forgotten += i + 1 < RECORDS && trace[i + 1] == 1 && !complete;
            invented += trace[i] == 0 && complete;
            undone += p.seen[i] && !complete;
        }
        OK(aclrtDestroyEvent(gate));
    }
    ck_assert_msg(forgotten + invented + undone == 0,
                  "%u rounds: %u executed records are forgotten, %u discarded ones are complete, "
                  "%u were complete before",
                  rounds, forgotten, invented, undone);
}
END_TEST

static aclError record_there(void *event)
{
    return aclrtRecordEvent(event, stream);
}

static aclError abort_device(void *unused)
{
    (void)unused;
    return aclrtDeviceTaskAbort(0, 0);
}

/*
 * Guards against an abort that hangs, and every destroy call of the process with it: a thread
 * waits, with the stream locked, for a number of an IPC event whose records of other streams are
 * all pending. aclrtStreamAbort (0), aclrtDestroyStreamForce (1), aclrtDeviceTaskAbort (2).
 */
START_TEST(abort_of_a_stream_whose_submitter_waits_for_a_number)
{
    static const aclError code[] = {ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_INVALID_HANDLE,
                                    ACL_ERROR_RT_DEVICE_TASK_ABORT};
    aclError (*const abort[])(void *) = {aclrtStreamAbort, aclrtDestroyStreamForce, abort_device};
    struct call submitter, aborter;
    aclrtStream full[4], spare;
    aclrtEvent event;

    open_device();
    OK(aclrtCreateStream(&spare));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    for (unsigned k = 0; k < 4; k++) {
        OK(aclrtCreateStream(&full[k]));
        stream_hold(full[k]);
        for (unsigned i = 0; i < IPC_SLOTS / 4; i++)
            OK(aclrtRecordEvent(event, full[k]));
    }
    call_start(&submitter, record_there, event);
    while (sleepers_in("aclrtRecordEvent") == 0)
        ;
    call_start(&aborter, abort[_i], stream);
    call_join(&aborter);
    ck_assert_int_eq(aborter.result, 0);
    call_join(&submitter);
    ck_assert_int_eq(submitter.result, code[_i]);
    OK(aclrtDestroyStream(spare));
}
END_TEST

struct filling {
    aclrtStream stream;
    atomic_uint queued, unexpected;
    atomic_bool stop;
};

static aclError fill_ring(void *arg)
{
    struct filling *f = arg;

    OK(aclrtSetCurrentContext(context));
    while (!atomic_load(&f->stop)) {
        aclError error = aclnpudLaunchDelay(0, 0, f->stream);

        if (error == 0)
            atomic_fetch_add(&f->queued, 1);
        else if (error != ACL_ERROR_RT_DEVICE_TASK_ABORT)
            atomic_fetch_add(&f->unexpected, 1);
    }
    return 0;
}

/* After a while of up to some 10 us, a little longer each time. */
static int32_t refuse_abort(int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t timeout,
                            void *arg)
{
    unsigned *turns = arg;

    (void)device;
    (void)stage;
    (void)timeout;
    *turns = (*turns + 7) % 8000;
    for (volatile unsigned i = 0; i < *turns; i++)
        ;
    return FAILURE;
}

/*
 * Guards against a submission into a full ring: the abort of a device asks the submitter to leave,
 * and is refused before that looks why it was to leave. The task overwrote an older one.
 */
START_TEST(no_room_by_a_refused_abort)
{
    unsigned rounds = choose_rounds(150000, 1000000), turns = 0, full;
    struct filling f = {0};
    struct call filler;
    aclrtEvent gate;

    open_device();
    f.stream = stream;
    gate = stream_hold(stream);
    call_start(&filler, fill_ring, &f);
    while (!npud_lists_sleeper(getpid(), "aclnpudLaunchDelay"))
        ;
    full = atomic_load(&f.queued);
    OK(aclrtSetDeviceTaskAbortCallback("refuse", refuse_abort, &turns));
    for (unsigned i = 0; i < rounds; i++)
        ck_assert_int_eq(aclrtDeviceTaskAbort(0, 0), FAILURE);
    atomic_store(&f.stop, true);
    ck_assert_uint_eq(atomic_load(&f.queued), full);
    stream_let_go(gate);
    call_join(&filler);
    ck_assert_uint_eq(atomic_load(&f.unexpected), 0);
    OK(aclrtSetDeviceTaskAbortCallback("refuse", NULL, NULL));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- a context that has stopped, a device that is lost --- */

static aclError copy_pageable(void *device)
{
    static char here[64];

    return aclrtMemcpyAsync(device, 64, here, sizeof(here), ACL_MEMCPY_HOST_TO_DEVICE, other);
}

static aclError copy_to_pageable(void *device)
{
    static char here[64];

    return aclrtMemcpyAsync(here, sizeof(here), device, 64, ACL_MEMCPY_DEVICE_TO_HOST, other);
}

static aclError set_pageable(void *unused)
{
    static char here[64];

    (void)unused;
    return aclrtMemsetAsync(here, sizeof(here), 1, sizeof(here), other);
}

static aclError set_device(void *device)
{
    return aclrtMemsetAsync(device, 64, 1, 64, other);
}

/*
 * Guards against submissions that succeed after the stream's context has stopped (0) or its device
 * was lost (1), because they need no task: copies and sets of pageable memory on an idle stream.
 */
START_TEST(no_submission_after_the_end)
{
    aclError (*const submit[])(void *) = {copy_pageable, copy_to_pageable, set_pageable,
                                          set_device};
    aclError code = _i == 0 ? FAILURE : ACL_ERROR_RT_LOST_HEARTBEAT;
    void *device;

    open_device();
    OK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    for (size_t i = 0; i < sizeof(submit) / sizeof(submit[0]); i++)
        OK(submit[i](device));
    if (_i == 0) {
        OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
        OK(aclnpudLaunchDelay(0, FAILURE, stream));
    } else {
        npuctl_says("inject lose-device --device 0", 0, "");
    }
    FAILS(code, aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < sizeof(submit) / sizeof(submit[0]); i++)
        FAILS(code, submit[i](device));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("stream_races");
    TCase *tc = suite_case(s, "threads on one stream", 120, npud_setup, npud_teardown);

    tcase_add_loop_test(tc, busy_in_its_own_callback, 0, 2);
    tcase_add_test(tc, synchronise_a_device_whose_stream_is_destroyed);
    tcase_add_test(tc, abort_a_device_whose_stream_is_destroyed);
    tcase_add_test(tc, reset_a_device_whose_stream_is_destroyed);
    tcase_add_test(tc, reset_in_a_callback_of_a_stream_that_is_destroyed);
    tcase_add_test(tc, failure_stays_with_its_stream);
    tcase_add_test(tc, stop_of_a_stream_that_is_destroyed);
    tcase_add_test(tc, created_during_the_last_reset);
    tcase_add_loop_test(tc, abort_behind_what_was_executed, 0, 3);
    tcase_add_loop_test(tc, abort_below_a_queued_wait, 0, 3);
    tcase_add_test(tc, abort_forgets_what_was_discarded);
    tcase_add_loop_test(tc, abort_of_a_stream_whose_submitter_waits_for_a_number, 0, 3);
    tcase_add_test(tc, no_room_by_a_refused_abort);
    tcase_add_loop_test(tc, no_submission_after_the_end, 0, 2);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
