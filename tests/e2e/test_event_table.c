/*
 * Events in one process: which function accepts which kind, at which moment, and what may be
 * created. Where the cells of the reference are:
 *
 * | reference                                 | here                                         |
 * | ----------------------------------------- | -------------------------------------------- |
 * | 8, every row and column                   | event_kinds.c, table; function_accepts_kind  |
 * | 8, the values that queries give           | test_event_states.c                          |
 * | 8, column d in two and three processes    | test_ipc_cells.c, functions                  |
 * | 3, creation: every combination of flags   | creation_flags                               |
 * | 3, stream wait and reset of each kind     | event_kinds.c, StreamWait..., Reset          |
 * | 3, timing, with and without TIME_LINE     | timing_needs_time_line, ..._latest_record    |
 * | 4, EXTERNAL and the mixing of flags       | external_needs_..., flags_do_not_mix         |
 * | 5, in one process                         | test_event_states.c                          |
 * | 6, in one, two and three processes        | test_ipc_cells.c, test_ipc_order.c, ..._life.c |
 *
 * Skipped under TSan: the test asks one call after the other.
 */
#include "event_actor.h"
#include "cells.h"
#include "event_kinds.h"

static aclrtStream stream, other;

static void set_up_test(void)
{
    npud_setup();
    OK(aclInit(NULL));
    stream = lane_stream(0, RECORD_1);
    other = lane_stream(0, SPARE);
}

/* --- functions and kinds --- */

static void call_at_moment(enum moment moment, const struct event_call *call, enum kind kind)
{
    aclrtEvent event = event_of_kind(kind), gate = NULL;
    const char *sentence;
    int error;

    if (moment == PENDING)
        gate = stream_hold(stream);
    if (moment != FRESH && kind != B_DEV)
        OK(aclrtRecordEvent(event, stream));
    if (moment == EXECUTED)
        OK(aclrtSynchronizeStream(stream));
    aclGetRecentErrMsg();
    error = call->call(event, other);
    sentence = aclGetRecentErrMsg();
    cell(error == call->expected[kind] && (error != 0) == (sentence != NULL), call->name, "%s, %s",
         event_kinds[kind].name, moment_names[moment]);
    if (gate)
        stream_let_go(gate);
    /* Whatever the call has submitted comes to its end; waits before the record do now. */
    aclrtRecordEvent(event, stream);
    OK(aclrtSynchronizeDeviceWithTimeout(LIMIT_MS));
}

START_TEST(function_accepts_kind)
{
    const struct event_call *call = &event_calls[_i / KINDS];

    for (enum moment m = FRESH; m <= EXECUTED; m <<= 1)
        if (call->when & m)
            call_at_moment(m, call, _i % KINDS);
    cells_expect_ok();
}
END_TEST

/* Only for what is timed: without TIME_LINE there is no timestamp, whatever the kind. */
START_TEST(timing_needs_time_line)
{
    static const uint32_t flags[] = {ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS,
                                     ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS};
    aclrtEvent event;
    uint64_t us;
    float ms;

    for (int i = 0; i < 6; i++) {
        OK((i & 1 ? aclrtCreateEventExWithFlag : aclrtCreateEventWithFlag)(&event, flags[i / 2]));
        FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventGetTimestamp(event, &us));
        OK(aclrtRecordEvent(event, stream));
        OK(aclrtSynchronizeStream(stream));
        FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(event, &us));
        FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&ms, event, event));
    }
}
END_TEST

START_TEST(timing_follows_the_latest_record)
{
    static const enum kind timed[] = {A, B_SYNC, B_MARK, C_SYNC, C_MARK};
    aclrtEvent event = event_of_kind(timed[_i]), gate;
    uint64_t first, second;
    float ms;

    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventGetTimestamp(event, &first));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventGetTimestamp(event, &first));
    OK(aclnpudLaunchDelay(2000, 0, stream));
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(event, stream));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(event, &first));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&ms, event, event));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventGetTimestamp(event, &second));
    ck_assert_uint_ge(second, first + 2000);
}
END_TEST

/* --- the creation functions: every combination of flags --- */

static bool is_flag_allowed(uint32_t flag, bool ex)
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
            aclError error, expected = is_flag_allowed(flag, ex) ? 0 : PARAM;

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

/* --- WithFlag --- */

static aclrtEvent make_exact(void)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    return event;
}

static aclError record_with(aclrtEvent event, uint32_t flag)
{
    return aclrtRecordEventWithFlag(event, stream, flag);
}

static aclError wait_with(aclrtEvent event, uint32_t flag)
{
    return aclrtStreamWaitEventWithFlag(stream, event, 0, flag);
}

START_TEST(external_needs_a_capturing_stream)
{
    FAILS(NOT_CAPT, record_with(make_exact(), ACL_EVENT_RECORD_EXTERNAL));
    FAILS(NOT_CAPT, wait_with(make_exact(), ACL_EVENT_WAIT_EXTERNAL));
}
END_TEST

/* The first flag is remembered, even if its call failed. */
START_TEST(flags_do_not_mix)
{
    aclrtEvent event = make_exact();

    OK(record_with(event, ACL_EVENT_RECORD_DEFAULT));
    FAILS(PARAM, record_with(event, ACL_EVENT_RECORD_EXTERNAL));
    OK(record_with(event, ACL_EVENT_RECORD_DEFAULT));
    event = make_exact();
    FAILS(NOT_CAPT, record_with(event, ACL_EVENT_RECORD_EXTERNAL));
    FAILS(PARAM, record_with(event, ACL_EVENT_RECORD_DEFAULT));
    event = make_exact();
    OK(wait_with(event, ACL_EVENT_WAIT_DEFAULT));
    FAILS(PARAM, wait_with(event, ACL_EVENT_WAIT_EXTERNAL));
    event = make_exact();
    FAILS(NOT_CAPT, wait_with(event, ACL_EVENT_WAIT_EXTERNAL));
    FAILS(PARAM, wait_with(event, ACL_EVENT_WAIT_DEFAULT));
}
END_TEST

/* --- numbers --- */

START_TEST(available_number_goes_down_and_up)
{
    uint32_t before, during, after;
    aclrtEvent event;

    OK(aclrtGetEventAvailNum(&before));
    event = event_of_kind(B_SYNC);
    OK(aclrtGetEventAvailNum(&during));
    OK(aclrtDestroyEvent(event));
    OK(aclrtGetEventAvailNum(&after));
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_eq(during, before - 1);
    ck_assert_uint_eq(after, before);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("event table");
    TCase *t = suite_case(s, "functions and kinds", 60, set_up_test, npud_teardown);

    tcase_add_loop_test(t, function_accepts_kind, 0, event_calls_n * KINDS);
    tcase_add_test(t, creation_flags);
    tcase_add_test(t, timing_needs_time_line);
    tcase_add_loop_test(t, timing_follows_the_latest_record, 0, 5);
    tcase_add_test(t, external_needs_a_capturing_stream);
    tcase_add_test(t, flags_do_not_mix);
    tcase_add_test(t, available_number_goes_down_and_up);
    return s;
}

int main(void)
{
    return cells_run_suite(make_suite());
}
