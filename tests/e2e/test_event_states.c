/*
 * What each state of an event answers, in one process. Where the rows are:
 *
 * | rows                                          | here                                       |
 * | --------------------------------------------- | ------------------------------------------ |
 * | before, submitted, executed, records 1 and 2  | table `states`; state_answers: every query, |
 * |                                               | both synchronise, every form of wait, from |
 * |                                               | streams of the same and the other device   |
 * | ... mark kinds                                | the same table; mark_state_answers         |
 * | StreamWait between 1 and 2, after 2           | wait_between_..., wait_after_...           |
 * | StreamWait in the stream of the latest record | wait_in_the_stream_of_the_record_passes    |
 * | after reset                                   | table `states`, rows "reset..."            |
 * | destroyed with tasks pending                  | destroyed_with_tasks_pending               |
 * | (b-sync) is one flag; (b-ext) as well         | level_is_..., external_event_has_...       |
 * | (b-dev) is never recorded                     | device_use_only_event_is_never_recorded    |
 * | QueryEventWaitStatus                          | outstanding_waits_are_told                 |
 * | limits of stream waits                        | expired_..., limits_that_do_not_apply      |
 * | waits across devices                          | wait_for_the_other_device_really_waits     |
 * | aclrtSynchronizeDevice                        | device_synchronise_...; more processes in  |
 * |                                               | test_ipc_order.c                           |
 *
 * Runs long: 6 s.
 */
#include "event_actor.h"
#include "cells.h"
#include "event_kinds.h"

static aclrtStream stream, other, third;

static void set_up_test(void)
{
    npud_setup();
    OK(aclInit(NULL));
    stream = lane_stream(0, RECORD_1);
    other = lane_stream(0, RECORD_2);
    third = lane_stream(0, SPARE);
}

/* --- states --- */

static aclrtEvent gate1, gate2;

static void not_recorded(aclrtEvent e)
{
    (void)e;
}

static void make_pending(aclrtEvent e)
{
    gate1 = stream_hold(stream);
    OK(aclrtRecordEvent(e, stream));
}

static void make_executed(aclrtEvent e)
{
    make_pending(e);
    stream_let_go(gate1);
    OK(aclrtSynchronizeStream(stream));
}

/* Complete at the call: nothing was outstanding. */
static void executed_at_once(aclrtEvent e)
{
    OK(aclrtRecordEvent(e, stream));
}

static void two_pending(aclrtEvent e)
{
    make_pending(e);
    gate2 = stream_hold(other);
    OK(aclrtRecordEvent(e, other));
}

static void first_executed_second_pending(aclrtEvent e)
{
    two_pending(e);
    stream_let_go(gate1);
    OK(aclrtSynchronizeStream(stream));
}

static void first_pending_second_executed(aclrtEvent e)
{
    two_pending(e);
    stream_let_go(gate2);
    OK(aclrtSynchronizeStream(other));
}

static void recorded_anew_after_executed(aclrtEvent e)
{
    make_executed(e);
    make_pending(e);
}

static void reset_executed(aclrtEvent e)
{
    make_executed(e);
    OK(aclrtResetEvent(e, stream));
}

static void reset_executed_in_its_turn(aclrtEvent e)
{
    aclrtEvent gate;

    make_executed(e);
    gate = stream_hold(stream);
    OK(aclrtResetEvent(e, stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
}

static void reset_pending(aclrtEvent e)
{
    make_executed(e);
    gate1 = stream_hold(stream);
    OK(aclrtResetEvent(e, stream));
}

static void recorded_after_reset(aclrtEvent e)
{
    reset_executed_in_its_turn(e);
    OK(aclnpudLaunchDelay(10, 0, stream));
    OK(aclrtRecordEvent(e, stream));
    OK(aclrtSynchronizeStream(stream));
}

enum answer {
    COMPLETE, /* synchronise: returns at once; wait: nothing left to wait for */
    NOT_YET,  /* not ready; blocks */
    REFUSED,  /* query: 207000; wait: 107000 */
};

struct answers {
    enum answer query, status, synchronize, wait;
};

/* The c-mark and b-mark columns are those of c-sync and b-sync, without waits. */
static const struct {
    const char *name;
    void (*reach)(aclrtEvent event);
    bool resets;
    struct answers a, b, c;
} states[] = {
    {"not recorded",
     not_recorded,
     false,
     {COMPLETE, NOT_YET, COMPLETE, REFUSED},
     {COMPLETE, NOT_YET, COMPLETE, NOT_YET},
     {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"pending",
     make_pending,
     false,
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"executed",
     make_executed,
     false,
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"executed at once",
     executed_at_once,
     false,
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"two pending",
     two_pending,
     false,
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"first executed, second pending",
     first_executed_second_pending,
     false,
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {NOT_YET, NOT_YET, NOT_YET, COMPLETE}, /* the flag stands since the first */
     {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"first pending, second executed",
     first_pending_second_executed,
     false,
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"recorded anew",
     recorded_anew_after_executed,
     false,
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {NOT_YET, NOT_YET, NOT_YET, COMPLETE},
     {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"reset",
     reset_executed,
     true,
     {COMPLETE, NOT_YET, COMPLETE, REFUSED},
     {COMPLETE, COMPLETE, COMPLETE, NOT_YET},
     {REFUSED, REFUSED, REFUSED, REFUSED}},
    {"reset in its turn",
     reset_executed_in_its_turn,
     true,
     {COMPLETE, NOT_YET, COMPLETE, REFUSED},
     {COMPLETE, COMPLETE, COMPLETE, NOT_YET},
     {REFUSED, REFUSED, REFUSED, REFUSED}},
    {"reset pending",
     reset_pending,
     true,
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {REFUSED, REFUSED, REFUSED, REFUSED}},
    {"recorded after reset",
     recorded_after_reset,
     true,
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {COMPLETE, COMPLETE, COMPLETE, COMPLETE},
     {REFUSED, REFUSED, REFUSED, REFUSED}},
};
#define STATES (int)(sizeof(states) / sizeof(states[0]))

/* --- asking --- */

static const enum kind with_states[] = {A, B_SYNC, C_SYNC};

/* The cell that is being asked for: a state and a kind. */
static const char *row, *column;

static void check_answer(bool ok, const char *what)
{
    cell(ok, row, "%s, %s", column, what);
}

static void ask_query(aclrtEvent e, enum answer expected)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    aclError error = aclrtQueryEvent(e, &status);

    if (expected == REFUSED)
        check_answer(error == NO && status == ACL_EVENT_STATUS_RESERVED, "Query");
    else
        check_answer(error == 0 && status == (expected == COMPLETE ? ACL_EVENT_STATUS_COMPLETE
                                                                   : ACL_EVENT_STATUS_NOT_READY),
                     "Query");
}

static bool status_is(aclrtEvent e, enum answer expected)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)-1;

    return aclrtQueryEventStatus(e, &status) == 0 &&
           status == (expected == COMPLETE ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                           : ACL_EVENT_RECORDED_STATUS_NOT_READY);
}

static void ask_synchronize(aclrtEvent e, enum answer expected)
{
    bool blocks = expected == NOT_YET;
    aclError timed = aclrtSynchronizeEventWithTimeout(e, blocks ? BLOCKED_MS : LIMIT_MS);

    check_answer(timed == (blocks ? ACL_ERROR_RT_EVENT_SYNC_TIMEOUT : 0), "SynchronizeWithTimeout");
    if (!blocks)
        check_answer(aclrtSynchronizeEvent(e) == 0, "Synchronize");
}

/* Each form in a stream of its own, on either device. */
static void ask_wait(aclrtEvent e, enum answer expected, int device, enum wait_form form)
{
    aclrtStream s = lane_stream(device, WAITING + (int)form);
    aclError error = wait_by(form, s, e, LIMIT_S);
    bool ok;

    if (expected == REFUSED) {
        ok = error == PARAM && idle(s);
    } else if (expected == COMPLETE) {
        ok = error == 0 && aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS) == 0;
    } else {
        engine_turn(lane_stream(device, PROBE));
        ok = error == 0 && !idle(s);
    }
    cell(ok, row, "%s, %s, %s", column, wait_form_names[form], device ? "device 1" : "device 0");
}

static void ask_waits(aclrtEvent e, enum answer expected)
{
    for (int device = 0; device < DEVICES; device++)
        for (enum wait_form form = 0; form < WAIT_FORMS; form++)
            ask_wait(e, expected, device, form);
    lane_stream(0, PROBE); /* back to device 0 */
}

/* What stood still goes on, everywhere and without an error. */
static void ask_for_the_end(void)
{
    bool ok = true;

    for (int device = DEVICES - 1; device >= 0; device--)
        for (int lane = 0; lane < WAITING_END; lane++)
            ok &= aclrtSynchronizeStreamWithTimeout(lane_stream(device, lane), LIMIT_MS) == 0;
    check_answer(ok, "released");
}

/* Whatever the state was: open gates and one more record let everything come to its end. */
static void let_go(aclrtEvent e)
{
    if (gate1)
        stream_let_go(gate1);
    if (gate2)
        stream_let_go(gate2);
    OK(aclrtRecordEvent(e, NULL));
    ask_for_the_end();
    OK(aclrtDestroyEvent(e));
    cells_expect_ok();
}

static void expect_status(aclrtEvent e, enum answer expected)
{
    ck_assert(status_is(e, expected));
}

START_TEST(state_answers)
{
    int state = _i / 3;
    enum kind kind = with_states[_i % 3];
    aclrtEvent event = event_of_kind(kind);
    const struct answers *x = kind == A        ? &states[state].a
                              : kind == B_SYNC ? &states[state].b
                                               : &states[state].c;

    row = states[state].name;
    column = event_kinds[kind].name;
    if (states[state].resets && kind == C_SYNC) {
        OK(aclrtRecordEvent(event, stream));
        check_answer(aclrtResetEvent(event, stream) == NO, "Reset");
        check_answer(status_is(event, COMPLETE), "QueryStatus");
        cells_expect_ok();
        return;
    }
    states[state].reach(event);
    ask_query(event, x->query);
    check_answer(status_is(event, x->status), "QueryStatus");
    ask_synchronize(event, x->synchronize);
    ask_waits(event, x->wait);
    let_go(event);
}
END_TEST

START_TEST(mark_state_answers)
{
    int state = _i / 2;
    enum kind kind = _i % 2 ? C_MARK : B_MARK;
    aclrtEvent event = event_of_kind(kind);
    const struct answers *x = kind == C_MARK ? &states[state].c : &states[state].b;

    row = states[state].name;
    column = event_kinds[kind].name;
    if (states[state].resets) {
        check_answer(aclrtResetEvent(event, stream) == NO, "Reset");
        cells_expect_ok();
        return;
    }
    states[state].reach(event);
    ask_query(event, x->query);
    check_answer(status_is(event, x->status), "QueryStatus");
    ask_synchronize(event, x->synchronize);
    for (enum wait_form form = 0; form < WAIT_FORMS; form++)
        check_answer(wait_by(form, third, event, LIMIT_S) == NO && idle(third),
                     wait_form_names[form]);
    let_go(event);
}
END_TEST

/* No call can record it: for queries it is a (b) event before its first record. */
START_TEST(device_use_only_event_is_never_recorded)
{
    aclrtEvent event = event_of_kind(B_DEV);

    row = "not recorded";
    column = "b-dev";
    check_answer(aclrtRecordEvent(event, stream) == PARAM, "Record");
    ask_query(event, COMPLETE);
    check_answer(status_is(event, NOT_YET), "QueryStatus");
    ask_synchronize(event, COMPLETE);
    ask_waits(event, REFUSED);
    cells_expect_ok();
}
END_TEST

START_TEST(wait_between_two_records_is_tied_to_the_first)
{
    enum kind kind = with_states[_i];
    aclrtEvent event = event_of_kind(kind), first, second;

    first = stream_hold(stream);
    second = stream_hold(other);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtRecordEvent(event, other));
    ck_assert(!drains(third));
    stream_let_go(first);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    expect_status(event, NOT_YET);
    stream_let_go(second);
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

/* The first record of two is not enough, except for the level of (b-sync), which either raises. */
START_TEST(wait_after_two_records_is_tied_to_the_second)
{
    enum kind kind = with_states[_i];
    aclrtEvent event = event_of_kind(kind);

    two_pending(event);
    OK(aclrtStreamWaitEvent(third, event));
    stream_let_go(gate1);
    OK(aclrtSynchronizeStream(stream));
    if (kind == B_SYNC)
        OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    else
        ck_assert(!drains(third));
    stream_let_go(gate2);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
}
END_TEST

START_TEST(second_record_alone_releases_the_wait)
{
    aclrtEvent event = event_of_kind(with_states[_i]);

    two_pending(event);
    OK(aclrtStreamWaitEvent(third, event));
    ck_assert(!drains(third));
    stream_let_go(gate2);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtSynchronizeEvent(event));
    ck_assert(!idle(stream));
    stream_let_go(gate1);
}
END_TEST

START_TEST(synchronize_concerns_the_record_latest_at_the_call)
{
    aclrtEvent event = event_of_kind(with_states[_i]);

    two_pending(event);
    stream_let_go(gate1);
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, BLOCKED_MS));
    stream_let_go(gate2);
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

START_TEST(wait_in_the_stream_of_the_record_passes)
{
    aclrtEvent event = event_of_kind(with_states[_i]), gate;

    gate = stream_hold(stream);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(stream, event));
    ck_assert(!drains(stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
}
END_TEST

/* The level of (b-sync): wait before record, several waiters, up until a reset. */
START_TEST(level_is_one_flag)
{
    aclrtEvent event = event_of_kind(B_SYNC);

    OK(aclrtStreamWaitEvent(stream, event));
    OK(aclrtStreamWaitEvent(other, event));
    ck_assert(!drains(stream) && !drains(other));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    OK(aclrtSynchronizeStreamWithTimeout(other, LIMIT_MS));
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtResetEvent(event, third));
    OK(aclrtStreamWaitEvent(third, event));
    ck_assert(!drains(third));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
}
END_TEST

START_TEST(external_event_has_the_same_level)
{
    aclrtEvent event = event_of_kind(B_EXT);

    OK(aclrtStreamWaitEvent(third, event));
    ck_assert(!drains(third));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtResetEvent(event, NULL));
    OK(aclrtStreamWaitEvent(third, event));
    ck_assert(!drains(third));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
}
END_TEST

START_TEST(outstanding_waits_are_told)
{
    enum kind kind = _i ? B_SYNC : A;
    aclrtEvent event = event_of_kind(kind);
    aclrtEventWaitStatus status;

    make_pending(event);
    OK(aclrtQueryEventWaitStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtQueryEventWaitStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_NOT_READY);
    stream_let_go(gate1);
    OK(aclrtSynchronizeStream(third));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtQueryEventWaitStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
}
END_TEST

#define MANY 20 /* streams: more than have a place in the event itself */

/* In streams that stand at a gate each: gate i lets stream i go to its wait. */
static void wait_in_many(aclrtEvent event, aclrtStream *streams, aclrtEvent *gates)
{
    for (unsigned i = 0; i < MANY; i++) {
        OK(aclrtCreateEventWithFlag(&gates[i], ACL_EVENT_SYNC));
        OK(aclrtStreamWaitEvent(streams[i], gates[i]));
        OK(aclrtStreamWaitEvent(streams[i], event));
        OK(aclrtStreamWaitEvent(streams[i], event));
    }
}

static void open_gate(aclrtStream s, aclrtEvent gate)
{
    OK(aclrtRecordEvent(gate, NULL));
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
    OK(aclrtDestroyEvent(gate));
}

/* Whichever of the streams is the last one: as long as it has not gone on, it waits. */
START_TEST(waits_in_many_streams_are_told)
{
    enum kind kind = _i ? B_SYNC : A;
    aclrtStream streams[MANY];
    aclrtEvent gates[MANY];
    aclrtEventWaitStatus status;

    for (unsigned i = 0; i < MANY; i++)
        OK(aclrtCreateStream(&streams[i]));
    for (unsigned last = 0; last < MANY; last++) {
        aclrtEvent event = event_of_kind(kind);

        make_pending(event);
        wait_in_many(event, streams, gates);
        stream_let_go(gate1);
        for (unsigned i = 0; i < MANY; i++)
            if (i != last)
                open_gate(streams[i], gates[i]);
        OK(aclrtQueryEventWaitStatus(event, &status));
        ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_NOT_READY);
        open_gate(streams[last], gates[last]);
        OK(aclrtQueryEventWaitStatus(event, &status));
        ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
        OK(aclrtDestroyEvent(event));
    }
}
END_TEST

/* The tasks of a destroyed event finish normally, also those that need the record. */
START_TEST(destroyed_with_tasks_pending)
{
    static const enum kind waitable[] = {A, B_SYNC, B_EXT, C_SYNC, IPC};
    enum kind kind = waitable[_i];
    aclrtEvent event = event_of_kind(kind), next;

    make_pending(event);
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtDestroyEvent(event));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordEvent(event, NULL));
    /* Its place is not given out too early: the next event is another one. */
    next = event_of_kind(kind);
    OK(aclrtRecordEvent(next, NULL));
    ck_assert(!drains(third) && !drains(other));
    stream_let_go(gate1);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtSynchronizeStreamWithTimeout(other, LIMIT_MS));
    OK(aclrtDestroyEvent(next));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(event));
}
END_TEST

/*
 * Continue on failure: the record after a failed task executes, and the stream tells of the
 * failure, once.
 */
START_TEST(failed_task_does_not_fail_the_event)
{
    static const enum kind recordable[] = {A, B_SYNC, B_MARK, C_SYNC, C_MARK, IPC};
    aclrtEvent event = event_of_kind(recordable[_i]);

    OK(aclnpudLaunchDelay(1000, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, stream));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEvent(event));
    expect_status(event, COMPLETE);
    FAILS(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- timeouts of stream waits --- */

static const enum kind can_expire[] = {A, B_SYNC, B_EXT, C_SYNC, IPC};
#define CAN_EXPIRE (int)(sizeof(can_expire) / sizeof(can_expire[0]))

/* All kinds at the same time, so that it takes one second. */
START_TEST(expired_wait_puts_an_error_on_its_stream)
{
    aclrtStream s[CAN_EXPIRE];
    uint64_t start = now_ns();

    gate1 = stream_hold(stream);
    for (int i = 0; i < CAN_EXPIRE; i++) {
        aclrtEvent event = event_of_kind(can_expire[i]);

        OK(aclrtCreateStream(&s[i]));
        OK(aclrtRecordEvent(event, stream));
        OK(wait_by((enum wait_form)_i, s[i], event, 1));
        OK(aclnpudLaunchDelay(0, 0, s[i]));
    }
    for (int i = 0; i < CAN_EXPIRE; i++) {
        FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStreamWithTimeout(s[i], LIMIT_MS));
        ck_assert_uint_ge(now_ns() - start, 1000000000);
        OK(aclrtSynchronizeStream(s[i]));
    }
    ck_assert(!idle(stream));
    stream_let_go(gate1);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* Waits that come true in time, and waits without limit of their own, are not touched by limits. */
START_TEST(limits_that_do_not_apply)
{
    aclrtStream unlimited[CAN_EXPIRE], in_time[CAN_EXPIRE];

    gate1 = stream_hold(stream);
    for (int i = 0; i < CAN_EXPIRE; i++) {
        aclrtEvent event = event_of_kind(can_expire[i]);

        OK(aclrtCreateStream(&unlimited[i]));
        OK(aclrtCreateStream(&in_time[i]));
        OK(aclrtRecordEvent(event, stream));
        OK(aclrtSetOpWaitTimeout(1));
        OK(aclrtStreamWaitEventWithTimeout(unlimited[i], event, 0));
        OK(aclrtSetOpWaitTimeout(0));
        OK(aclrtStreamWaitEvent(unlimited[i], event));
        OK(aclrtStreamWaitEventWithTimeout(in_time[i], event, 20));
    }
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 1200));
    stream_let_go(gate1);
    for (int i = 0; i < CAN_EXPIRE; i++) {
        OK(aclrtSynchronizeStreamWithTimeout(unlimited[i], LIMIT_MS));
        OK(aclrtSynchronizeStreamWithTimeout(in_time[i], LIMIT_MS));
    }
}
END_TEST

/* --- devices --- */

/* From either device to the other, every kind that can be waited for, every form. */
START_TEST(wait_for_the_other_device_really_waits)
{
    static const enum kind waitable[] = {A, B_SYNC, B_EXT, C_SYNC, IPC};
    int from = _i % 2;
    aclrtEvent event, gate;

    column = event_kinds[waitable[_i / 2]].name;
    row = from ? "recorded on device 1" : "recorded on device 0";
    gate = stream_hold(lane_stream(from, RECORD_1));
    event = event_of_kind(waitable[_i / 2]);
    OK(aclrtRecordEvent(event, lane_stream(from, RECORD_1)));
    for (enum wait_form form = 0; form < WAIT_FORMS; form++)
        ask_wait(event, NOT_YET, !from, form);
    lane_stream(from, PROBE);
    stream_let_go(gate);
    ask_for_the_end();
    for (enum wait_form form = 0; form < WAIT_FORMS; form++)
        ask_wait(event, COMPLETE, !from, form);
    cells_expect_ok();
}
END_TEST

/* --- aclrtSynchronizeDevice --- */

START_TEST(device_synchronise_waits_for_every_stream_of_the_device)
{
    aclrtContext explicit_context;
    aclrtStream here, far;
    aclrtEvent gate;

    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    gate = stream_hold(far); /* another device's: does not count */
    OK(aclrtCreateContext(&explicit_context, 0));
    OK(aclrtCreateStream(&here));
    OK(aclrtSynchronizeDevice());
    OK(aclnpudLaunchDelay(100000, 0, here));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(10));
    OK(aclrtSynchronizeDevice());
    ck_assert(idle(here));
    ck_assert(!idle(far));
    OK(aclrtRecordEvent(gate, NULL));
    OK(aclrtSynchronizeStream(far));
}
END_TEST

START_TEST(device_synchronise_reports_a_failed_task_once)
{
    OK(aclnpudLaunchDelay(20000, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    OK(aclnpudLaunchDelay(60000, 0, other));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeDevice());
    ck_assert(idle(other)); /* it waited for the others nevertheless */
    OK(aclrtSynchronizeDevice());
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("event states");
    TCase *t = suite_case(s, "states", 60, set_up_test, npud_teardown);

    tcase_add_loop_test(t, state_answers, 0, STATES * 3);
    tcase_add_loop_test(t, mark_state_answers, 0, STATES * 2);
    tcase_add_test(t, device_use_only_event_is_never_recorded);
    tcase_add_loop_test(t, wait_between_two_records_is_tied_to_the_first, 0, 3);
    tcase_add_loop_test(t, wait_after_two_records_is_tied_to_the_second, 0, 3);
    tcase_add_loop_test(t, second_record_alone_releases_the_wait, 0, 3);
    tcase_add_loop_test(t, synchronize_concerns_the_record_latest_at_the_call, 0, 3);
    tcase_add_loop_test(t, wait_in_the_stream_of_the_record_passes, 0, 3);
    tcase_add_test(t, level_is_one_flag);
    tcase_add_test(t, external_event_has_the_same_level);
    tcase_add_loop_test(t, outstanding_waits_are_told, 0, 2);
    tcase_add_loop_test(t, waits_in_many_streams_are_told, 0, 2);
    tcase_add_loop_test(t, destroyed_with_tasks_pending, 0, 5);
    tcase_add_loop_test(t, failed_task_does_not_fail_the_event, 0, 6);
    tcase_add_loop_test(t, wait_for_the_other_device_really_waits, 0, 10);
    tcase_add_test(t, device_synchronise_waits_for_every_stream_of_the_device);
    tcase_add_test(t, device_synchronise_reports_a_failed_task_once);
    tcase_add_loop_test(t, expired_wait_puts_an_error_on_its_stream, WAIT_TIMEOUT, WAIT_FORMS);
    tcase_add_test(t, limits_that_do_not_apply);
    return s;
}

int main(void)
{
    return cells_run_suite(make_suite());
}
