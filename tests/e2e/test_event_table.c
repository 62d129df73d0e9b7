/*
 * The tables of the event reference, cell by cell: which function accepts which kind (sections 3
 * and 8), what each state answers (section 5), and the same for IPC events through several handles
 * of one process (section 6).
 */
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "proto/ipc_handle.h"

#define BLOCKED_MS                                                                                 \
    10 /* after this a call or stream that has not come to its end counts as blocked */
#define LIMIT_MS 10000 /* against hanging: something that must happen has not */

static aclrtStream stream, other, third;

static void setup(void)
{
    npud_setup();
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&third));
}

/* A gate holds a stream until it is opened. */
static aclrtEvent gate_close(aclrtStream s)
{
    aclrtEvent gate;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(s, gate));
    return gate;
}

static void gate_open(aclrtEvent gate)
{
    OK(aclrtRecordEvent(gate, NULL));
}

static bool drains(aclrtStream s)
{
    aclError error = aclrtSynchronizeStreamWithTimeout(s, BLOCKED_MS);

    ck_assert_msg(error == 0 || error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "synchronise: %d",
                  error);
    return error == 0;
}

static bool idle(aclrtStream s)
{
    aclrtStreamStatus status;

    OK(aclrtStreamQuery(s, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

/* --- kinds --- */

enum kind { A, B_SYNC, B_MARK, B_EXT, B_DEV, C_SYNC, C_MARK, IPC, KINDS };

static aclError create_default(aclrtEvent *event, uint32_t flag)
{
    (void)flag;
    return aclrtCreateEvent(event);
}

static const struct {
    const char *name;
    aclError (*create)(aclrtEvent *event, uint32_t flag);
    uint32_t flag;
} kinds[KINDS] = {
    [A] = {"a", create_default, 0},
    [B_SYNC] = {"b-sync", aclrtCreateEventWithFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE},
    [B_MARK] = {"b-mark", aclrtCreateEventWithFlag, ACL_EVENT_TIME_LINE},
    [B_EXT] = {"b-ext", aclrtCreateEventWithFlag, ACL_EVENT_EXTERNAL},
    [B_DEV] = {"b-dev", aclrtCreateEventWithFlag, ACL_EVENT_DEVICE_USE_ONLY},
    [C_SYNC] = {"c-sync", aclrtCreateEventExWithFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE},
    [C_MARK] = {"c-mark", aclrtCreateEventExWithFlag, ACL_EVENT_TIME_LINE},
    [IPC] = {"ipc", aclrtCreateEventExWithFlag, ACL_EVENT_IPC},
};

static aclrtEvent make(enum kind kind)
{
    aclrtEvent event;

    OK(kinds[kind].create(&event, kinds[kind].flag));
    return event;
}

/* --- section 8: functions and kinds --- */

static aclError call_record(aclrtEvent e)
{
    return aclrtRecordEvent(e, stream);
}

static aclError call_record_flag(aclrtEvent e)
{
    return aclrtRecordEventWithFlag(e, stream, ACL_EVENT_RECORD_DEFAULT);
}

/* No graphs here: what may be recorded for one is refused because the stream does not capture. */
static aclError call_record_external(aclrtEvent e)
{
    return aclrtRecordEventWithFlag(e, stream, ACL_EVENT_RECORD_EXTERNAL);
}

static aclError call_reset(aclrtEvent e)
{
    return aclrtResetEvent(e, stream);
}

static aclError call_query(aclrtEvent e)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    aclError error = aclrtQueryEvent(e, &status);

    ck_assert_int_eq(status, error == 0 ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_RESERVED);
    return error;
}

static aclError call_query_status(aclrtEvent e)
{
    aclrtEventRecordedStatus status = -1;
    aclError error = aclrtQueryEventStatus(e, &status);

    ck_assert_int_ne(status, error == 0 ? -1 : ACL_EVENT_RECORDED_STATUS_COMPLETE);
    return error;
}

static aclError call_query_wait(aclrtEvent e)
{
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
    aclError error = aclrtQueryEventWaitStatus(e, &status);

    ck_assert_int_eq(status,
                     error == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_RESERVED);
    return error;
}

static aclError call_synchronize_timeout(aclrtEvent e)
{
    return aclrtSynchronizeEventWithTimeout(e, LIMIT_MS);
}

static aclError call_wait(aclrtEvent e)
{
    return aclrtStreamWaitEvent(third, e);
}

static aclError call_wait_timeout(aclrtEvent e)
{
    return aclrtStreamWaitEventWithTimeout(third, e, 10);
}

static aclError call_wait_flag(aclrtEvent e)
{
    return aclrtStreamWaitEventWithFlag(third, e, 10, ACL_EVENT_WAIT_DEFAULT);
}

static aclError call_wait_external(aclrtEvent e)
{
    return aclrtStreamWaitEventWithFlag(third, e, 0, ACL_EVENT_WAIT_EXTERNAL);
}

static aclError call_elapsed(aclrtEvent start, aclrtEvent end)
{
    float ms = -1;
    aclError error = aclrtEventElapsedTime(&ms, start, end);

    ck_assert_msg(error == 0 ? ms != -1 : ms == -1, "%d with ms %f", error, (double)ms);
    return error;
}

static aclError call_elapsed_itself(aclrtEvent e)
{
    return call_elapsed(e, e);
}

/* The other event is all right: its partner decides, in either place. */
static aclError call_elapsed_from(aclrtEvent e)
{
    aclrtEvent good = make(A);

    OK(aclrtRecordEvent(good, NULL));
    return call_elapsed(e, good);
}

static aclError call_elapsed_to(aclrtEvent e)
{
    aclrtEvent good = make(A);

    OK(aclrtRecordEvent(good, NULL));
    return call_elapsed(good, e);
}

static aclError call_timestamp(aclrtEvent e)
{
    uint64_t us = UINT64_MAX;
    aclError error = aclrtEventGetTimestamp(e, &us);

    ck_assert_int_eq(us == UINT64_MAX, error != 0);
    return error;
}

static aclError call_id(aclrtEvent e)
{
    uint32_t id = UINT32_MAX;
    aclError error = aclrtGetEventId(e, &id);

    ck_assert_int_eq(id == UINT32_MAX, error != 0);
    return error;
}

static aclError call_export(aclrtEvent e)
{
    aclrtIpcEventHandle handle, untouched;
    aclError error;

    memset(&handle, 0x5a, sizeof(handle));
    untouched = handle;
    error = aclrtIpcGetEventHandle(e, &handle);
    ck_assert_int_eq(memcmp(&handle, &untouched, sizeof(handle)) == 0, error != 0);
    return error;
}

#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define NO       ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define INTERNAL ACL_ERROR_RT_INTERNAL_ERROR
#define NOT_CAPT ACL_ERROR_RT_STREAM_NOT_CAPTURED

/*
 * EXTERNAL needs kind (c) with the flag exactly ACL_EVENT_SYNC; ours has TIME_LINE, so nobody here
 * does.
 */
static const struct {
    const char *name;
    aclError (*call)(aclrtEvent event);
    bool pending; /* called while the record is outstanding, else after it */
    int expected[KINDS];
} functions[] = {
    /* a, b-sync, b-mark, b-ext, b-dev, c-sync, c-mark, ipc */
    {"Record", call_record, false, {0, 0, 0, 0, PARAM, 0, 0, 0}},
    {"RecordWithFlag", call_record_flag, false, {0, 0, 0, 0, PARAM, 0, 0, 0}},
    {"RecordExternal", call_record_external, false, {NO, NO, NO, NO, NO, NO, NO, NO}},
    {"Reset", call_reset, false, {0, 0, NO, 0, PARAM, NO, NO, NO}},
    {"Query", call_query, false, {0, 0, 0, NO, 0, NO, NO, NO}},
    {"QueryStatus", call_query_status, false, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"QueryStatus, pending", call_query_status, true, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"QueryWaitStatus", call_query_wait, false, {0, 0, 0, NO, 0, NO, NO, NO}},
    {"Synchronize", aclrtSynchronizeEvent, false, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"SynchronizeWithTimeout", call_synchronize_timeout, false, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"StreamWait", call_wait, false, {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWait, pending", call_wait, true, {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithTimeout", call_wait_timeout, false, {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithFlag", call_wait_flag, false, {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitExternal", call_wait_external, false, {NO, NO, NO, NO, NO, NO, NO, NO}},
    {"ElapsedTime", call_elapsed_itself, false, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"ElapsedTime from", call_elapsed_from, false, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"ElapsedTime to", call_elapsed_to, false, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"GetTimestamp", call_timestamp, false, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"GetEventId, pending", call_id, true, {0, 0, INTERNAL, 0, 0, 0, INTERNAL, NO}},
    {"GetEventId", call_id, false, {0, 0, INTERNAL, 0, 0, INTERNAL, INTERNAL, NO}},
    {"IpcGetHandle", call_export, false, {PARAM, PARAM, PARAM, PARAM, PARAM, PARAM, PARAM, 0}},
    {"Destroy", aclrtDestroyEvent, false, {0, 0, 0, 0, 0, 0, 0, 0}},
    {"Destroy, pending", aclrtDestroyEvent, true, {0, 0, 0, 0, 0, 0, 0, 0}},
};
#define FUNCTIONS (int)(sizeof(functions) / sizeof(functions[0]))

START_TEST(function_accepts_kind)
{
    int f = _i / KINDS, kind = _i % KINDS, error;
    aclrtEvent event = make(kind), gate = NULL;
    const char *sentence;

    if (functions[f].pending)
        gate = gate_close(stream);
    if (kind != B_DEV)
        OK(aclrtRecordEvent(event, stream));
    if (!functions[f].pending)
        OK(aclrtSynchronizeStream(stream));
    aclGetRecentErrMsg();
    error = functions[f].call(event);
    ck_assert_msg(error == functions[f].expected[kind], "%s of %s: %d, expected %d",
                  functions[f].name, kinds[kind].name, error, functions[f].expected[kind]);
    sentence = aclGetRecentErrMsg();
    ck_assert_msg((error != 0) == (sentence != NULL), "%s of %s: %d and %s", functions[f].name,
                  kinds[kind].name, error, sentence ? sentence : "no sentence");
    if (gate)
        gate_open(gate);
    OK(aclrtSynchronizeDeviceWithTimeout(LIMIT_MS));
}
END_TEST

/* Only for what is timed: without TIME_LINE there is no timestamp, whatever the kind. */
START_TEST(timing_needs_time_line)
{
    static const uint32_t flags[] = {ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS,
                                     ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS};
    aclrtEvent event;
    uint64_t us;

    for (int i = 0; i < 6; i++) {
        OK((i & 1 ? aclrtCreateEventExWithFlag : aclrtCreateEventWithFlag)(&event, flags[i / 2]));
        FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventGetTimestamp(event, &us));
        OK(aclrtRecordEvent(event, stream));
        OK(aclrtSynchronizeStream(stream));
        FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(event, &us));
        FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, call_elapsed(event, event));
    }
}
END_TEST

START_TEST(timing_follows_the_latest_record)
{
    static const enum kind timed[] = {A, B_SYNC, B_MARK, C_SYNC, C_MARK};
    aclrtEvent event = make(timed[_i]), gate;
    uint64_t first, second;

    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, call_timestamp(event));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventGetTimestamp(event, &first));
    OK(aclnpudLaunchDelay(2000, 0, stream));
    gate = gate_close(stream);
    OK(aclrtRecordEvent(event, stream));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, call_timestamp(event));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, call_elapsed(event, event));
    gate_open(gate);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventGetTimestamp(event, &second));
    ck_assert_uint_ge(second, first + 2000);
}
END_TEST

/* --- section 3 and the creation functions: every combination of flags --- */

static bool allowed(uint32_t flag, bool ex)
{
    uint32_t ordinary = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;

    if (ex ? flag == ACL_EVENT_IPC
           : flag == ACL_EVENT_DEVICE_USE_ONLY || flag == ACL_EVENT_EXTERNAL)
        return true;
    return flag != 0 && (flag & ~ordinary) == 0;
}

START_TEST(creation_flags)
{
    aclrtEvent event, untouched = (aclrtEvent)0x5a5a;

    for (int ex = 0; ex < 2; ex++)
        for (uint32_t i = 0; i < 0x200; i++) {
            uint32_t flag = (i & 0xff) | (i & 0x100) << 23;
            aclError error, expected = allowed(flag, ex) ? 0 : PARAM;

            if (flag & 0x04) /* undocumented */
                continue;
            event = untouched;
            error = (ex ? aclrtCreateEventExWithFlag : aclrtCreateEventWithFlag)(&event, flag);
            ck_assert_msg(error == expected, "ex %d flag 0x%x: %d", ex, flag, error);
            ck_assert_int_eq(event == untouched, error != 0);
            if (error == 0)
                OK(aclrtDestroyEvent(event));
        }
}
END_TEST

/* --- section 5: states --- */

static aclrtEvent gate1, gate2;

static void not_recorded(aclrtEvent e)
{
    (void)e;
}

static void pending(aclrtEvent e)
{
    gate1 = gate_close(stream);
    OK(aclrtRecordEvent(e, stream));
}

static void executed(aclrtEvent e)
{
    pending(e);
    gate_open(gate1);
    OK(aclrtSynchronizeStream(stream));
}

/* Complete at the call: nothing was outstanding. */
static void executed_at_once(aclrtEvent e)
{
    OK(aclrtRecordEvent(e, stream));
}

static void two_pending(aclrtEvent e)
{
    pending(e);
    gate2 = gate_close(other);
    OK(aclrtRecordEvent(e, other));
}

static void first_executed_second_pending(aclrtEvent e)
{
    two_pending(e);
    gate_open(gate1);
    OK(aclrtSynchronizeStream(stream));
}

static void first_pending_second_executed(aclrtEvent e)
{
    two_pending(e);
    gate_open(gate2);
    OK(aclrtSynchronizeStream(other));
}

static void recorded_anew_after_executed(aclrtEvent e)
{
    executed(e);
    pending(e);
}

static void reset_executed(aclrtEvent e)
{
    executed(e);
    OK(aclrtResetEvent(e, stream));
}

static void reset_executed_in_its_turn(aclrtEvent e)
{
    aclrtEvent gate;

    executed(e);
    gate = gate_close(stream);
    OK(aclrtResetEvent(e, stream));
    gate_open(gate);
    OK(aclrtSynchronizeStream(stream));
}

static void reset_pending(aclrtEvent e)
{
    executed(e);
    gate1 = gate_close(stream);
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
     pending,
     false,
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {NOT_YET, NOT_YET, NOT_YET, NOT_YET},
     {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"executed",
     executed,
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

static void expect_query(aclrtEvent e, enum answer expected)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;

    if (expected == REFUSED) {
        FAILS(NO, aclrtQueryEvent(e, &status));
        return;
    }
    OK(aclrtQueryEvent(e, &status));
    ck_assert_int_eq(status,
                     expected == COMPLETE ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY);
}

static void expect_status(aclrtEvent e, enum answer expected)
{
    aclrtEventRecordedStatus status = -1;

    OK(aclrtQueryEventStatus(e, &status));
    ck_assert_int_eq(status, expected == COMPLETE ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                  : ACL_EVENT_RECORDED_STATUS_NOT_READY);
}

static void expect_synchronize(aclrtEvent e, enum answer expected)
{
    if (expected == COMPLETE)
        OK(aclrtSynchronizeEvent(e));
    else
        FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(e, BLOCKED_MS));
}

static void expect_wait(aclrtEvent e, enum answer expected)
{
    if (expected == REFUSED) {
        FAILS(PARAM, aclrtStreamWaitEvent(third, e));
        ck_assert(idle(third));
        return;
    }
    OK(aclrtStreamWaitEvent(third, e));
    if (expected == COMPLETE)
        OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    else
        ck_assert(!drains(third));
}

static void expect_answers(aclrtEvent e, const struct answers *x)
{
    expect_query(e, x->query);
    expect_status(e, x->status);
    expect_synchronize(e, x->synchronize);
    expect_wait(e, x->wait);
}

/* Whatever the state was: open gates and one more record let everything come to its end. */
static void let_go(aclrtEvent e)
{
    if (gate1)
        gate_open(gate1);
    if (gate2)
        gate_open(gate2);
    OK(aclrtRecordEvent(e, NULL));
    OK(aclrtSynchronizeDeviceWithTimeout(LIMIT_MS));
    OK(aclrtDestroyEvent(e));
}

static const enum kind with_states[] = {A, B_SYNC, C_SYNC};

START_TEST(state_answers)
{
    int state = _i / 3;
    enum kind kind = with_states[_i % 3];
    aclrtEvent event = make(kind);

    if (states[state].resets && kind == C_SYNC) {
        OK(aclrtRecordEvent(event, stream));
        FAILS(NO, aclrtResetEvent(event, stream));
        expect_status(event, COMPLETE);
        return;
    }
    states[state].reach(event);
    expect_answers(event, kind == A        ? &states[state].a
                          : kind == B_SYNC ? &states[state].b
                                           : &states[state].c);
    let_go(event);
}
END_TEST

START_TEST(mark_state_answers)
{
    int state = _i / 2;
    bool c = _i % 2;
    aclrtEvent event = make(c ? C_MARK : B_MARK);
    const struct answers *x = c ? &states[state].c : &states[state].b;

    if (states[state].resets) {
        FAILS(NO, aclrtResetEvent(event, stream));
        return;
    }
    states[state].reach(event);
    expect_query(event, x->query);
    expect_status(event, x->status);
    expect_synchronize(event, x->synchronize);
    FAILS(NO, aclrtStreamWaitEvent(third, event));
    let_go(event);
}
END_TEST

START_TEST(wait_between_two_records_is_tied_to_the_first)
{
    enum kind kind = with_states[_i];
    aclrtEvent event = make(kind), first, second;

    first = gate_close(stream);
    second = gate_close(other);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtRecordEvent(event, other));
    ck_assert(!drains(third));
    gate_open(first);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    expect_status(event, NOT_YET);
    gate_open(second);
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

/* The first record of two is not enough, except for the level of (b-sync), which either raises. */
START_TEST(wait_after_two_records_is_tied_to_the_second)
{
    enum kind kind = with_states[_i];
    aclrtEvent event = make(kind);

    two_pending(event);
    OK(aclrtStreamWaitEvent(third, event));
    gate_open(gate1);
    OK(aclrtSynchronizeStream(stream));
    if (kind == B_SYNC)
        OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    else
        ck_assert(!drains(third));
    gate_open(gate2);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
}
END_TEST

START_TEST(second_record_alone_releases_the_wait)
{
    aclrtEvent event = make(with_states[_i]);

    two_pending(event);
    OK(aclrtStreamWaitEvent(third, event));
    ck_assert(!drains(third));
    gate_open(gate2);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtSynchronizeEvent(event));
    ck_assert(!idle(stream));
    gate_open(gate1);
}
END_TEST

START_TEST(synchronize_concerns_the_record_latest_at_the_call)
{
    aclrtEvent event = make(with_states[_i]);

    two_pending(event);
    gate_open(gate1);
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, BLOCKED_MS));
    gate_open(gate2);
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

START_TEST(wait_in_the_stream_of_the_record_passes)
{
    aclrtEvent event = make(_i == 3 ? IPC : with_states[_i]), gate;

    gate = gate_close(stream);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(stream, event));
    ck_assert(!drains(stream));
    gate_open(gate);
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
}
END_TEST

/* The level of (b-sync): wait before record, several waiters, up until a reset. */
START_TEST(level_is_one_flag)
{
    aclrtEvent event = make(B_SYNC);

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
    aclrtEvent event = make(B_EXT);

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
    aclrtEvent event = make(kind);
    aclrtEventWaitStatus status;

    pending(event);
    OK(aclrtQueryEventWaitStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtQueryEventWaitStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_NOT_READY);
    gate_open(gate1);
    OK(aclrtSynchronizeStream(third));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtQueryEventWaitStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
}
END_TEST

/* The tasks of a destroyed event finish normally, also those that need the record. */
START_TEST(destroyed_with_tasks_pending)
{
    static const enum kind waitable[] = {A, B_SYNC, B_EXT, C_SYNC, IPC};
    enum kind kind = waitable[_i];
    aclrtEvent event = make(kind), next;

    pending(event);
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtDestroyEvent(event));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordEvent(event, NULL));
    /* Its place is not given out too early: the next event is another one. */
    next = make(kind);
    OK(aclrtRecordEvent(next, NULL));
    ck_assert(!drains(third) && !drains(other));
    gate_open(gate1);
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
    aclrtEvent event = make(recordable[_i]);

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

static aclError wait_one_second(int how, aclrtStream s, aclrtEvent e)
{
    switch (how) {
    case 0:
        return aclrtStreamWaitEventWithTimeout(s, e, 1);
    case 1:
        return aclrtStreamWaitEventWithFlag(s, e, 1, ACL_EVENT_WAIT_DEFAULT);
    case 2:
        OK(aclrtSetOpWaitTimeout(1));
        return aclrtStreamWaitEvent(s, e);
    default:
        OK(aclrtSetOpWaitTimeout(1));
        return aclrtStreamWaitEventWithFlag(s, e, UINT32_MAX, ACL_EVENT_WAIT_DEFAULT);
    }
}

/* All kinds at the same time, so that it takes one second. */
START_TEST(expired_wait_puts_an_error_on_its_stream)
{
    aclrtStream s[CAN_EXPIRE];
    uint64_t start = now_ns();

    gate1 = gate_close(stream);
    for (int i = 0; i < CAN_EXPIRE; i++) {
        aclrtEvent event = make(can_expire[i]);

        OK(aclrtCreateStream(&s[i]));
        OK(aclrtRecordEvent(event, stream));
        OK(wait_one_second(_i, s[i], event));
        OK(aclnpudLaunchDelay(0, 0, s[i]));
    }
    for (int i = 0; i < CAN_EXPIRE; i++) {
        FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStreamWithTimeout(s[i], LIMIT_MS));
        ck_assert_uint_ge(now_ns() - start, 1000000000);
        OK(aclrtSynchronizeStream(s[i]));
    }
    ck_assert(!idle(stream));
    gate_open(gate1);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* Waits that come true in time, and waits without limit of their own, are not touched by limits. */
START_TEST(limits_that_do_not_apply)
{
    aclrtStream unlimited[CAN_EXPIRE], in_time[CAN_EXPIRE];

    gate1 = gate_close(stream);
    for (int i = 0; i < CAN_EXPIRE; i++) {
        aclrtEvent event = make(can_expire[i]);

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
    gate_open(gate1);
    for (int i = 0; i < CAN_EXPIRE; i++) {
        OK(aclrtSynchronizeStreamWithTimeout(unlimited[i], LIMIT_MS));
        OK(aclrtSynchronizeStreamWithTimeout(in_time[i], LIMIT_MS));
    }
}
END_TEST

/* --- WithFlag --- */

static aclrtEvent make_exact(void)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    return event;
}

START_TEST(external_needs_a_capturing_stream)
{
    FAILS(NOT_CAPT, call_record_external(make_exact()));
    FAILS(NOT_CAPT, call_wait_external(make_exact()));
}
END_TEST

/* The first flag is remembered, even if its call failed. */
START_TEST(flags_do_not_mix)
{
    aclrtEvent event = make_exact();

    OK(call_record_flag(event));
    FAILS(PARAM, call_record_external(event));
    OK(call_record_flag(event));
    event = make_exact();
    FAILS(NOT_CAPT, call_record_external(event));
    FAILS(PARAM, call_record_flag(event));
    event = make_exact();
    OK(call_wait_flag(event));
    FAILS(PARAM, call_wait_external(event));
    event = make_exact();
    FAILS(NOT_CAPT, call_wait_external(event));
    FAILS(PARAM, call_wait_flag(event));
}
END_TEST

/* --- ids and numbers --- */

START_TEST(id_is_there_when_something_holds_it)
{
    uint32_t id;
    aclrtEvent event = make(A);

    FAILS(INTERNAL, aclrtGetEventId(event, &id));
    event = make(C_SYNC);
    FAILS(INTERNAL, aclrtGetEventId(event, &id));
    pending(event);
    OK(aclrtGetEventId(event, &id));
    gate_open(gate1);
    OK(aclrtSynchronizeEvent(event));
    FAILS(INTERNAL, aclrtGetEventId(event, &id));
    OK(aclrtGetEventId(make(B_SYNC), &id));
}
END_TEST

START_TEST(available_number_goes_down_and_up)
{
    uint32_t before, during, after;
    aclrtEvent event;

    OK(aclrtGetEventAvailNum(&before));
    event = make(B_SYNC);
    OK(aclrtGetEventAvailNum(&during));
    OK(aclrtDestroyEvent(event));
    OK(aclrtGetEventAvailNum(&after));
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_eq(during, before - 1);
    ck_assert_uint_eq(after, before);
}
END_TEST

/* --- section 6: IPC events, through the handles of one process --- */

static aclrtEvent ipc[3]; /* the creator's and two opened ones */

static void ipc_setup(void)
{
    aclrtIpcEventHandle handle;

    setup();
    ipc[0] = make(IPC);
    OK(aclrtIpcGetEventHandle(ipc[0], &handle));
    OK(aclrtIpcOpenEventHandle(handle, &ipc[1]));
    OK(aclrtIpcOpenEventHandle(handle, &ipc[2]));
}

static aclrtEvent recorder1, recorder2;

static void ipc_pending(aclrtEvent e)
{
    (void)e;
    pending(recorder1);
}

static void ipc_executed(aclrtEvent e)
{
    (void)e;
    executed(recorder1);
}

static void ipc_executed_at_once(aclrtEvent e)
{
    (void)e;
    executed_at_once(recorder1);
}

static void ipc_two_pending(aclrtEvent e)
{
    (void)e;
    pending(recorder1);
    gate2 = gate_close(other);
    OK(aclrtRecordEvent(recorder2, other));
}

static void ipc_first_executed(aclrtEvent e)
{
    ipc_two_pending(e);
    gate_open(gate1);
    OK(aclrtSynchronizeStream(stream));
}

static void ipc_second_executed(aclrtEvent e)
{
    ipc_two_pending(e);
    gate_open(gate2);
    OK(aclrtSynchronizeStream(other));
}

/*
 * After a record of one's own was complete, a newer one of a peer counts (the vendor gets this
 * wrong).
 */
static void ipc_peer_pending_after_own(aclrtEvent e)
{
    executed(recorder2);
    OK(aclrtSynchronizeEvent(e));
    pending(recorder1);
}

static const struct {
    const char *name;
    void (*reach)(aclrtEvent event);
    struct answers answers;
} ipc_states[] = {
    {"not recorded", not_recorded, {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"pending", ipc_pending, {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"executed", ipc_executed, {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"executed at once", ipc_executed_at_once, {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"two pending", ipc_two_pending, {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"first executed", ipc_first_executed, {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
    {"second executed", ipc_second_executed, {REFUSED, COMPLETE, COMPLETE, COMPLETE}},
    {"peer pending", ipc_peer_pending_after_own, {REFUSED, NOT_YET, NOT_YET, NOT_YET}},
};
#define IPC_STATES (int)(sizeof(ipc_states) / sizeof(ipc_states[0]))

/* Who records first, who second, who looks: every choice among the three handles. */
START_TEST(ipc_state_answers)
{
    int state = _i % IPC_STATES, who = _i / IPC_STATES;
    aclrtEvent looker = ipc[who / 9];

    recorder1 = ipc[who % 3];
    recorder2 = ipc[who / 3 % 3];
    ipc_states[state].reach(looker);
    expect_answers(looker, &ipc_states[state].answers);
    let_go(looker);
}
END_TEST

START_TEST(ipc_wait_is_tied_to_the_record_latest_at_the_call)
{
    gate1 = gate_close(stream);
    gate2 = gate_close(other);
    OK(aclrtRecordEvent(ipc[0], stream));
    OK(aclrtStreamWaitEvent(third, ipc[1]));
    OK(aclrtRecordEvent(ipc[2], other));
    ck_assert(!drains(third));
    gate_open(gate1);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtStreamWaitEvent(third, ipc[0]));
    ck_assert(!drains(third));
    for (int i = 0; i < 3; i++)
        expect_status(ipc[i], NOT_YET);
    gate_open(gate2);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    for (int i = 0; i < 3; i++)
        expect_status(ipc[i], COMPLETE);
}
END_TEST

START_TEST(ipc_wait_with_nothing_to_wait_for_submits_nothing)
{
    aclrtEvent gate = gate_close(stream);

    OK(aclrtStreamWaitEvent(third, ipc[1]));
    ck_assert(idle(third));
    OK(aclrtRecordEvent(ipc[0], stream));
    ck_assert(idle(third)); /* a wait issued before the record returns without waiting */
    gate_open(gate);
    OK(aclrtSynchronizeEvent(ipc[1]));
}
END_TEST

START_TEST(ipc_export_names_the_same_event)
{
    aclrtIpcEventHandle handle, again;

    memset(&handle, 0x11, sizeof(handle));
    memset(&again, 0x22, sizeof(again));
    OK(aclrtIpcGetEventHandle(ipc[0], &handle));
    OK(aclrtRecordEvent(ipc[0], stream));
    OK(aclrtIpcGetEventHandle(ipc[1], &again));
    ck_assert_mem_eq(&handle, &again, sizeof(handle));
    OK(aclrtIpcGetEventHandle(make(IPC), &again));
    ck_assert_mem_ne(&handle, &again, sizeof(handle));
}
END_TEST

/* Each handle is to be destroyed by itself; the event lives while one is left. */
START_TEST(ipc_handles_are_independent)
{
    pending(ipc[0]);
    OK(aclrtStreamWaitEvent(third, ipc[1]));
    OK(aclrtDestroyEvent(ipc[1]));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeEvent(ipc[1]));
    expect_status(ipc[2], NOT_YET);
    OK(aclrtDestroyEvent(ipc[0]));
    expect_status(ipc[2], NOT_YET);
    ck_assert(!drains(third));
    gate_open(gate1);
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtSynchronizeEventWithTimeout(ipc[2], LIMIT_MS));
    OK(aclrtRecordEvent(ipc[2], stream));
    OK(aclrtDestroyEvent(ipc[2]));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(ipc[2]));
    ck_assert_uint_eq(npud_ledger().sessions, 1);
}
END_TEST

static void expect_forged(const void *bytes)
{
    aclrtEvent event = (aclrtEvent)0x5a5a;
    aclrtIpcEventHandle handle;

    memcpy(&handle, bytes, sizeof(handle));
    FAILS(PARAM, aclrtIpcOpenEventHandle(handle, &event));
    ck_assert_ptr_eq(event, (aclrtEvent)0x5a5a);
}

/* Damaged in any bit, all zeros, all ones: no handle. */
START_TEST(ipc_damaged_handle)
{
    aclrtIpcEventHandle handle;
    unsigned char bytes[sizeof(handle)];

    OK(aclrtIpcGetEventHandle(ipc[0], &handle));
    for (unsigned bit = 0; bit < 8 * sizeof(handle); bit++) {
        memcpy(bytes, &handle, sizeof(bytes));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        expect_forged(bytes);
    }
    memset(bytes, 0, sizeof(bytes));
    expect_forged(bytes);
    memset(bytes, 0xff, sizeof(bytes));
    expect_forged(bytes);
}
END_TEST

/* Put together with care, but without the secret, or for what was never made or never exported. */
START_TEST(ipc_forged_handle)
{
    struct ipc_handle genuine, forged;
    aclrtIpcEventHandle handle;

    make(IPC); /* never exported */
    OK(aclrtIpcGetEventHandle(ipc[0], &handle));
    memcpy(&genuine, &handle, sizeof(genuine));
    for (int i = 0; i < 4; i++) {
        forged = genuine;
        if (i == 0)
            forged.secret[15] ^= 1;
        else if (i == 1)
            forged.object += 1;
        else if (i == 2)
            forged.object = UINT64_MAX;
        else
            forged.device ^= 1;
        forged.check = ipc_handle_check(&forged);
        expect_forged(&forged);
    }
}
END_TEST

/* --- section 7 --- */

START_TEST(device_synchronise_waits_for_every_stream_of_the_device)
{
    aclrtContext explicit_context;
    aclrtStream here, far;
    aclrtEvent gate;

    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    gate = gate_close(far); /* another device's: does not count */
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

/* --- a handle whose event is gone --- */

static int handle_pipe[2];

static int export_and_leave(void *arg)
{
    aclrtIpcEventHandle handle;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtIpcGetEventHandle(make(IPC), &handle));
    ck_assert_int_eq(write(handle_pipe[1], &handle, sizeof(handle)), sizeof(handle));
    return 0;
}

START_TEST(ipc_event_is_gone)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event = (aclrtEvent)0x5a5a;

    npud_setup();
    ck_assert_int_eq(pipe(handle_pipe), 0);
    child_expect_ok(child_start(export_and_leave, NULL));
    ck_assert_int_eq(read(handle_pipe[0], &handle, sizeof(handle)), sizeof(handle));
    npud_expect_empty();
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtIpcOpenEventHandle(handle, &event));
    ck_assert_ptr_eq(event, (aclrtEvent)0x5a5a);
}
END_TEST

/* --- */

static TCase *add_case(Suite *s, const char *name, void (*before)(void))
{
    TCase *t = tcase_create(name);

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, before, npud_teardown);
    suite_add_tcase(s, t);
    return t;
}

static void add_tables(Suite *s)
{
    TCase *t = add_case(s, "functions and kinds", setup);

    tcase_add_loop_test(t, function_accepts_kind, 0, FUNCTIONS * KINDS);
    tcase_add_test(t, creation_flags);
    tcase_add_test(t, timing_needs_time_line);
    tcase_add_loop_test(t, timing_follows_the_latest_record, 0, 5);
    tcase_add_test(t, external_needs_a_capturing_stream);
    tcase_add_test(t, flags_do_not_mix);
    tcase_add_test(t, id_is_there_when_something_holds_it);
    tcase_add_test(t, available_number_goes_down_and_up);
}

static void add_states(Suite *s)
{
    TCase *t = add_case(s, "states", setup);

    tcase_add_loop_test(t, state_answers, 0, STATES * 3);
    tcase_add_loop_test(t, mark_state_answers, 0, STATES * 2);
    tcase_add_loop_test(t, wait_between_two_records_is_tied_to_the_first, 0, 3);
    tcase_add_loop_test(t, wait_after_two_records_is_tied_to_the_second, 0, 3);
    tcase_add_loop_test(t, second_record_alone_releases_the_wait, 0, 3);
    tcase_add_loop_test(t, synchronize_concerns_the_record_latest_at_the_call, 0, 3);
    tcase_add_loop_test(t, wait_in_the_stream_of_the_record_passes, 0, 4);
    tcase_add_test(t, level_is_one_flag);
    tcase_add_test(t, external_event_has_the_same_level);
    tcase_add_loop_test(t, outstanding_waits_are_told, 0, 2);
    tcase_add_loop_test(t, destroyed_with_tasks_pending, 0, 5);
    tcase_add_loop_test(t, failed_task_does_not_fail_the_event, 0, 6);
    tcase_add_test(t, device_synchronise_waits_for_every_stream_of_the_device);
    tcase_add_test(t, device_synchronise_reports_a_failed_task_once);
    tcase_add_loop_test(t, expired_wait_puts_an_error_on_its_stream, 0, 4);
    tcase_add_test(t, limits_that_do_not_apply);
}

static void add_ipc(Suite *s)
{
    TCase *t = add_case(s, "IPC in one process", ipc_setup);

    tcase_add_loop_test(t, ipc_state_answers, 0, IPC_STATES * 27);
    tcase_add_test(t, ipc_wait_is_tied_to_the_record_latest_at_the_call);
    tcase_add_test(t, ipc_wait_with_nothing_to_wait_for_submits_nothing);
    tcase_add_test(t, ipc_export_names_the_same_event);
    tcase_add_test(t, ipc_handles_are_independent);
    tcase_add_test(t, ipc_damaged_handle);
    tcase_add_test(t, ipc_forged_handle);
    t = add_case(s, "IPC, exporter gone", NULL);
    tcase_add_test(t, ipc_event_is_gone);
}

static Suite *suite(void)
{
    Suite *s = suite_create("event table");

    add_tables(s);
    add_states(s);
    add_ipc(s);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
