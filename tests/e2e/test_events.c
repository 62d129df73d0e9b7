/* Events of every kind in one process, and IPC events between two. */
#include <string.h>
#include <unistd.h>

#include "tests/common/effort.h"
#include "tests/common/harness.h"

static aclrtStream stream, other;

static void set_up_test(void)
{
    npud_setup();
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
}

static aclrtEventRecordedStatus status_of(aclrtEvent event)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(event, &status));
    return status;
}

START_TEST(record_is_complete_when_the_stream_gets_there)
{
    aclrtEvent gate = stream_hold(stream), event;

    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, stream));
    ck_assert_int_eq(status_of(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 20));
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtSynchronizeEvent(event));
    ck_assert_int_eq(status_of(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
}
END_TEST

START_TEST(wait_belongs_to_the_record_latest_at_the_call)
{
    aclrtEvent gate1 = stream_hold(stream), gate2, event, seen;
    aclrtStream third;

    OK(aclrtCreateStream(&third));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&seen, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(third, event));
    OK(aclrtRecordEvent(seen, third));
    gate2 = stream_hold(other);
    OK(aclrtRecordEvent(event, other));
    ck_assert_int_eq(status_of(seen), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtRecordEvent(gate1, NULL));
    OK(aclrtSynchronizeEvent(seen));
    ck_assert_int_eq(status_of(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtRecordEvent(gate2, NULL));
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

START_TEST(level_event_blocks_again_after_reset)
{
    aclrtEvent level, seen;

    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&seen, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(level, other));
    OK(aclrtStreamWaitEvent(stream, level));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtResetEvent(level, stream));
    OK(aclrtStreamWaitEvent(stream, level));
    OK(aclrtRecordEvent(seen, stream));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 20));
    ck_assert_int_eq(status_of(seen), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtRecordEvent(level, other));
    OK(aclrtSynchronizeEvent(seen));
}
END_TEST

START_TEST(default_event_is_not_recorded_after_reset)
{
    aclrtEvent event, gate;

    OK(aclrtCreateEvent(&event));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEvent(stream, event));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(other, event));
    gate = stream_hold(stream);
    OK(aclrtResetEvent(event, stream));
    ck_assert_int_eq(status_of(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(status_of(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEvent(stream, event));
    OK(aclrtRecordEvent(event, stream));
    ck_assert_int_eq(status_of(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
}
END_TEST

START_TEST(elapsed_time_measures_the_delay)
{
    aclrtEvent start, end;
    float ms;

    OK(aclrtCreateEvent(&start));
    OK(aclrtCreateEventExWithFlag(&end, ACL_EVENT_TIME_LINE));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventElapsedTime(&ms, start, end));
    OK(aclrtRecordEvent(start, stream));
    OK(aclnpudLaunchDelay(30000, 0, stream));
    OK(aclrtRecordEvent(end, stream));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&ms, start, end));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventElapsedTime(&ms, start, end));
    ck_assert_float_ge(ms, 30.0f);
    ck_assert_float_lt(ms, (float)choose_effort(20000, 300));
    OK(aclrtEventElapsedTime(&ms, end, start));
    ck_assert_float_le(ms, -30.0f);
}
END_TEST

START_TEST(stream_wait_times_out_with_an_error_on_the_stream)
{
    aclrtEvent gate;
    uint64_t start = now_ns();

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEventWithTimeout(stream, gate, 1));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    ck_assert_uint_ge(now_ns() - start, 1000000000);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtRecordEvent(gate, other));
}
END_TEST

START_TEST(wait_reaches_across_devices)
{
    aclrtEvent event, done;
    aclrtStream far;
    uint64_t start;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    start = now_ns();
    OK(aclnpudLaunchDelay(50000, 0, stream));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    OK(aclrtStreamWaitEvent(far, event));
    OK(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(done, far));
    OK(aclrtSynchronizeEvent(done));
    ck_assert_uint_ge(now_ns() - start, 50000000);
}
END_TEST

/* --- two processes --- */

static struct turn exported, recorded, finished;
static int handle_pipe[2];

static int consume_event(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtEventRecordedStatus status;
    aclrtEvent event;
    aclrtStream s;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&s));
    turn_await(&exported);
    ck_assert_int_eq(read(handle_pipe[0], &handle, sizeof(handle)), sizeof(handle));
    OK(aclrtIpcOpenEventHandle(handle, &event));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtStreamWaitEvent(s, event));
    turn_tell(&recorded);
    OK(aclrtSynchronizeStream(s));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtRecordEvent(event, s));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtDestroyEvent(event));
    turn_tell(&finished);
    return 0;
}

START_TEST(ipc_event_between_two_processes)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event, gate;
    pid_t pid;

    npud_setup();
    turn_init(&exported);
    turn_init(&recorded);
    turn_init(&finished);
    ck_assert_int_eq(pipe(handle_pipe), 0);
    pid = child_start(consume_event, NULL);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtIpcGetEventHandle(event, &handle));
    ck_assert_int_eq(write(handle_pipe[1], &handle, sizeof(handle)), sizeof(handle));
    turn_tell(&exported);
    turn_await(&recorded);
    OK(aclrtRecordEvent(gate, other));
    turn_await(&finished);
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtDestroyEvent(event));
    child_expect_ok(pid);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("events");
    TCase *one = suite_case(s, "one process", 30, set_up_test, npud_teardown);
    TCase *two = suite_case(s, "two processes", 30, NULL, npud_teardown);

    tcase_add_test(one, record_is_complete_when_the_stream_gets_there);
    tcase_add_test(one, wait_belongs_to_the_record_latest_at_the_call);
    tcase_add_test(one, level_event_blocks_again_after_reset);
    tcase_add_test(one, default_event_is_not_recorded_after_reset);
    tcase_add_test(one, elapsed_time_measures_the_delay);
    tcase_add_test(one, stream_wait_times_out_with_an_error_on_the_stream);
    tcase_add_test(one, wait_reaches_across_devices);
    tcase_add_test(two, ipc_event_between_two_processes);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
