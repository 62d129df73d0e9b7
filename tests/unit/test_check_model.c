/* npu-check's model: each edge of docs/checking.md, each kind of finding, and its absence. */
#include "acl/acl_rt.h"
#include "tests/common/suite.h"
#include "tests/unit/check_script.h"

#define MEMORY 1u
#define OTHER  2u
#define EVENT  70u

static struct script run;
static uint32_t x, y; /* places of two acts */

static void set_up(void)
{
    script_start(&run, 2, false);
    for (uint64_t i = 1; i <= 3; i++)
        say_stream(&run, i);
    say_memory(&run, MEMORY, 0, false);
    say_memory(&run, OTHER, 0, false);
}

static void tear_down(void)
{
    script_free(&run);
}

static uint32_t write_by(uint64_t stream)
{
    return say_set(&run, stream, MEMORY, 0, 64);
}

static uint32_t read_by(uint64_t stream)
{
    return say_access(&run, stream, MEMORY, 0, 64, CHECK_READ);
}

static void expect_race(void)
{
    const struct finding *f;

    model_end(&run.model);
    f = script_find(&run, FINDING_RACE, x, y);
    ck_assert_msg(f != NULL, "no race between %u and %u", x, y);
    ck_assert_uint_eq(run.findings.n, 1);
    ck_assert_uint_eq(f->memory.whole, 4096);
}

static void expect_nothing(void)
{
    model_end(&run.model);
    ck_assert_msg(run.findings.n == 0, "a finding: %s, %u and %u",
                  finding_names[run.findings.list[0].kind], run.findings.list[0].first.place,
                  run.findings.list[0].second.place);
}

/* --------------------------------------------------------------------------------- orders */

START_TEST(test_no_order)
{
    x = write_by(1);
    y = read_by(2);
    expect_race();
    ck_assert_int_eq(run.findings.list[0].missing.kind, MISSING_WAIT);
    ck_assert_uint_eq(run.findings.list[0].first.what, ACT_WRITE);
    ck_assert_uint_eq(run.findings.list[0].second.what, ACT_READ);
    ck_assert_uint_eq(run.findings.list[0].first.ordinal, 1);
}
END_TEST

START_TEST(test_read_and_write)
{
    write_by(1);
    say_sync(&run, 1);
    x = read_by(1);
    y = write_by(2);
    expect_race();
}
END_TEST

START_TEST(test_reads_do_not_race)
{
    write_by(1);
    say_sync(&run, 1);
    read_by(1);
    read_by(2);
    read_by(3);
    expect_nothing();
}
END_TEST

START_TEST(test_stream_order)
{
    write_by(1);
    write_by(1);
    read_by(1);
    expect_nothing();
}
END_TEST

START_TEST(test_synchronise)
{
    write_by(1);
    say_sync(&run, 1);
    read_by(2);
    expect_nothing();
}
END_TEST

/* What was given after the call began is not covered. */
START_TEST(test_synchronise_since)
{
    uint64_t since = run.ns;

    x = write_by(1);
    say_sync_since(&run, 1, since);
    y = read_by(2);
    expect_race();
}
END_TEST

START_TEST(test_host_does)
{
    x = write_by(1);
    y = say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    expect_race();
    ck_assert_int_eq(run.findings.list[0].missing.kind, MISSING_SYNCHRONISE);
}
END_TEST

START_TEST(test_host_before)
{
    say_access(&run, 0, MEMORY, 0, 64, CHECK_WRITE);
    read_by(1);
    read_by(2);
    expect_nothing();
}
END_TEST

static void record_and_wait(uint32_t kind)
{
    say_event(&run, EVENT, kind, kind == CHECK_EVENT_IPC ? 5 : 0);
    write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 1);
    read_by(2);
    expect_nothing();
}

START_TEST(test_record_wait)
{
    record_and_wait((uint32_t)_i);
}
END_TEST

START_TEST(test_recorded_too_early)
{
    uint32_t record, wait;

    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    record = say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    x = write_by(1);
    wait = say_event_use(&run, CHECK_WAIT, 2, EVENT, 1);
    y = read_by(2);
    expect_race();
    ck_assert_int_eq(run.findings.list[0].missing.kind, MISSING_WAIT_EARLIER);
    ck_assert_uint_eq(run.findings.list[0].missing.wait.place, wait);
    ck_assert_uint_eq(run.findings.list[0].missing.record.place, record);
    ck_assert_uint_eq(run.findings.list[0].missing.event_number, 1);
}
END_TEST

/* A wait means the record at the call, and not one after it. */
START_TEST(test_later_record)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    say_event_use(&run, CHECK_RECORD, 3, EVENT, 1);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 1);
    x = write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 2);
    y = read_by(2);
    expect_race();
}
END_TEST

START_TEST(test_wait_means_latest_record)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    say_event_use(&run, CHECK_RECORD, 3, EVENT, 1);
    write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 2);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 2);
    read_by(2);
    expect_nothing();
}
END_TEST

/* The second stream is forced: the record that it waits for is then looked at first. */
START_TEST(test_cause_is_forced)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    say_callback(&run, 1, 1, true);
    write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 1);
    read_by(2);
    say_sync(&run, 2);
    expect_nothing();
}
END_TEST

START_TEST(test_chain_of_waits)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 1);
    say_event_use(&run, CHECK_RECORD, 2, EVENT, 2);
    say_event_use(&run, CHECK_WAIT, 3, EVENT, 2);
    write_by(3);
    expect_nothing();
}
END_TEST

START_TEST(test_sync_event)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    say_event_use(&run, CHECK_SYNC_EVENT, 0, EVENT, 1);
    say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    expect_nothing();
}
END_TEST

START_TEST(test_sync_event_covers_no_more)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    x = write_by(1);
    say_event_use(&run, CHECK_SYNC_EVENT, 0, EVENT, 1);
    y = say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    expect_race();
}
END_TEST

START_TEST(test_ipc_event)
{
    say_event(&run, EVENT, CHECK_EVENT_IPC, 5);
    say_export(&run, MEMORY, 9);
    run.process = 1;
    say_stream(&run, 1);
    say_event(&run, EVENT, CHECK_EVENT_IPC, 5);
    say_memory(&run, 7, 9, true);
    run.process = 0;
    x = write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    run.process = 1;
    if (_i)
        say_event_use(&run, CHECK_WAIT, 1, EVENT, 1);
    y = say_access(&run, 1, 7, 0, 64, CHECK_READ);
    if (_i)
        expect_nothing();
    else
        expect_race();
}
END_TEST

/* The level goes up once for all waits, also for those that were given before. */
START_TEST(test_level)
{
    say_event(&run, EVENT, CHECK_EVENT_LEVEL, 0);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 0);
    x = read_by(2);
    y = write_by(1);
    if (_i)
        say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    else
        say_event_use(&run, CHECK_RECORD, 3, EVENT, 1);
    say_sync(&run, 2);
    if (_i) {
        expect_nothing();
    } else {
        uint32_t swap = x;

        x = y;
        y = swap;
        expect_race();
    }
}
END_TEST

START_TEST(test_level_was_lowered)
{
    say_event(&run, EVENT, CHECK_EVENT_LEVEL, 0);
    x = write_by(1);
    say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
    say_event_use(&run, CHECK_RESET, 3, EVENT, 0);
    say_event_use(&run, CHECK_RECORD, 3, EVENT, 2);
    say_event_use(&run, CHECK_WAIT, 2, EVENT, 2);
    y = read_by(2);
    expect_race();
}
END_TEST

START_TEST(test_notify)
{
    say_notify(&run, 3, 4, false);
    if (_i == 0) {
        write_by(1);
        say_notify_use(&run, 1, 3, TASK_NOTIFY_RECORD);
        say_notify_use(&run, 2, 3, TASK_NOTIFY_WAIT);
        read_by(2);
    } else {
        say_notify_use(&run, 2, 3, TASK_NOTIFY_WAIT);
        read_by(2);
        write_by(1);
        say_notify_use(&run, 1, 3, TASK_NOTIFY_RECORD);
    }
    expect_nothing();
}
END_TEST

/* A wait takes what was recorded: the next one waits for the next record. */
START_TEST(test_notify_is_taken)
{
    say_notify(&run, 3, 4, false);
    say_notify_use(&run, 3, 3, TASK_NOTIFY_RECORD);
    say_notify_use(&run, 2, 3, TASK_NOTIFY_WAIT);
    x = write_by(1);
    y = read_by(2);
    say_notify_use(&run, 1, 3, TASK_NOTIFY_RECORD);
    expect_race();
}
END_TEST

/* Two waits need two records, of which the second comes after the write. */
START_TEST(test_notify_is_taken_once)
{
    say_notify(&run, 3, 4, false);
    say_notify_use(&run, 3, 3, TASK_NOTIFY_RECORD);
    say_notify_use(&run, 2, 3, TASK_NOTIFY_WAIT);
    say_notify_use(&run, 2, 3, TASK_NOTIFY_WAIT);
    read_by(2);
    write_by(1);
    say_notify_use(&run, 1, 3, TASK_NOTIFY_RECORD);
    expect_nothing();
}
END_TEST

/* What a thread has reset, no wait takes. */
START_TEST(test_notify_reset)
{
    say_notify(&run, 3, 4, false);
    say_notify_use(&run, 3, 3, TASK_NOTIFY_RECORD);
    say_notify_kind(&run, CHECK_NOTIFY_RESET, 3);
    say_notify_use(&run, 2, 3, TASK_NOTIFY_WAIT);
    read_by(2);
    write_by(1);
    say_notify_use(&run, 1, 3, TASK_NOTIFY_RECORD);
    expect_nothing();
}
END_TEST

/* By its identity it is the same in both processes. */
START_TEST(test_shared_notify)
{
    say_notify(&run, 3, 4, false);
    say_memory(&run, 5, 9, false);
    say_set(&run, 1, 5, 0, 64);
    say_notify_use(&run, 1, 3, TASK_NOTIFY_RECORD);
    run.process = 1;
    say_stream(&run, 1);
    say_notify(&run, 6, 4, false);
    say_memory(&run, 7, 9, true);
    say_notify_use(&run, 1, 6, TASK_NOTIFY_WAIT);
    say_access(&run, 1, 7, 0, 64, CHECK_READ);
    expect_nothing();
}
END_TEST

START_TEST(test_count_notify)
{
    say_notify(&run, 3, 4, true);
    say_count_use(&run, 2, 3, TASK_COUNT_WAIT, 2, ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE,
                  true);
    x = say_access(&run, 2, MEMORY, 0, 64, CHECK_WRITE);
    y = write_by(1);
    say_count_use(&run, 1, 3, TASK_COUNT_RECORD, 1, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, false);
    say_set(&run, 3, OTHER, 0, 64);
    say_count_use(&run, 3, 3, TASK_COUNT_RECORD, 1, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, false);
    say_access(&run, 2, OTHER, 0, 64, CHECK_READ);
    expect_nothing();
    ck_assert_uint_eq(run.world.n_streams, 3);
}
END_TEST

/* The counter is 3 when the wait for 2 comes, which then comes after what makes it 2. */
START_TEST(test_count_waits_for_its_value)
{
    say_notify(&run, 3, 4, true);
    say_count_use(&run, 3, 3, TASK_COUNT_RECORD, 3, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, false);
    say_count_use(&run, 2, 3, TASK_COUNT_WAIT, 2, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, false);
    read_by(2);
    write_by(1);
    say_count_use(&run, 1, 3, TASK_COUNT_RECORD, 2, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, false);
    expect_nothing();
}
END_TEST

/* The wait goes on with the second record, and so before what comes behind that. */
START_TEST(test_count_adds)
{
    say_notify(&run, 3, 4, true);
    say_count_use(&run, 2, 3, TASK_COUNT_WAIT, 2, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, false);
    x = say_access(&run, 2, MEMORY, 0, 64, CHECK_WRITE);
    say_count_use(&run, 3, 3, TASK_COUNT_RECORD, 1, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, false);
    say_count_use(&run, 1, 3, TASK_COUNT_RECORD, 1, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, false);
    y = write_by(1); /* behind the record that has let the wait go on */
    say_count_use(&run, 1, 3, TASK_COUNT_RECORD, 1, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, false);
    expect_race();
}
END_TEST

START_TEST(test_value)
{
    write_by(1);
    say_value(&run, 1, OTHER, 8, TASK_VALUE_WRITE, 7, 0);
    say_value(&run, 2, OTHER, 8, TASK_VALUE_WAIT, 7, ACL_STREAM_WAIT_VALUE_EQ);
    read_by(2);
    expect_nothing();
}
END_TEST

/* A copy writes the word: nothing is known of its value, but that the thread has seen it. */
START_TEST(test_value_by_copy)
{
    say_value(&run, 2, OTHER, 8, TASK_VALUE_WAIT, 7, ACL_STREAM_WAIT_VALUE_EQ);
    read_by(2);
    write_by(1);
    say_set(&run, 1, OTHER, 0, 64);
    say_sync(&run, 2);
    expect_nothing();
}
END_TEST

START_TEST(test_callback)
{
    write_by(1);
    say_callback(&run, 1, 1, false);
    say_called(&run, CHECK_CALLBACK_BEGIN, 1, 1);
    say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    say_called(&run, CHECK_CALLBACK_END, 1, 1);
    expect_nothing();
}
END_TEST

START_TEST(test_blocking_callback)
{
    say_callback(&run, 1, 1, _i);
    x = say_access(&run, 1, MEMORY, 0, 64, CHECK_WRITE);
    say_called(&run, CHECK_CALLBACK_BEGIN, 1, 1);
    y = say_access(&run, 0, MEMORY, 0, 64, CHECK_WRITE);
    say_called(&run, CHECK_CALLBACK_END, 1, 1);
    if (_i)
        expect_nothing();
    else
        expect_race();
}
END_TEST

/* Calls of a graph whose second one is of a nested graph, and has another place in the list. */
START_TEST(test_calls_of_a_graph)
{
    say_graph_call(&run, 1, 1, 3);
    say_graph_call(&run, 1, 3, 3);
    write_by(1);
    say_graph_call(&run, 1, 2, 3);
    say_set(&run, 1, OTHER, 0, 64);
    for (uint64_t ordinal = 1; ordinal < 4; ordinal += 2) {
        say_called(&run, CHECK_CALLBACK_BEGIN, 1, ordinal);
        say_called(&run, CHECK_CALLBACK_END, 1, ordinal);
    }
    say_called(&run, CHECK_CALLBACK_BEGIN, 1, 5);
    say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    say_access(&run, 0, OTHER, 0, 64, CHECK_WRITE);
    say_called(&run, CHECK_CALLBACK_END, 1, 5);
    say_called(&run, CHECK_CALLBACK_BEGIN, 1, 7); /* the first one once more */
    say_access(&run, 0, OTHER, 0, 64, CHECK_WRITE);
    say_called(&run, CHECK_CALLBACK_END, 1, 7);
    say_sync(&run, 1);
    expect_nothing();
}
END_TEST

START_TEST(test_destroyed_stream)
{
    write_by(1);
    say_stream_gone(&run, 1, 0);
    say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    say_stream(&run, 8);
    write_by(8);
    expect_nothing();
}
END_TEST

/* The strict variant: a thread knows what it has learned itself. */
START_TEST(test_seen_host)
{
    tear_down();
    script_start(&run, 1, true);
    say_stream(&run, 1);
    say_memory(&run, MEMORY, 0, false);
    say_stream(&run, 2);
    x = write_by(1);
    say_sync(&run, 1);
    if (_i)
        say_handover(&run, CHECK_PUT, 1);
    run.writer = 1;
    if (_i)
        say_handover(&run, CHECK_TAKE, 1);
    y = say_access(&run, 0, MEMORY, 0, 64, CHECK_READ);
    if (_i)
        expect_nothing();
    else
        expect_race();
}
END_TEST

/* A stream that another thread has destroyed is not known to be over. */
START_TEST(test_seen_destroyed)
{
    tear_down();
    script_start(&run, 1, true);
    say_memory(&run, MEMORY, 0, false);
    say_stream(&run, 1);
    x = write_by(1);
    say_stream_gone(&run, 1, 0);
    run.writer = 1;
    say_stream(&run, 2);
    y = write_by(2);
    expect_race();
}
END_TEST

/* ------------------------------------------------------------------------------- findings */

START_TEST(test_uninitialised)
{
    const struct finding *f;

    say_set(&run, 1, MEMORY, 0, 100);
    x = say_access(&run, 1, MEMORY, 50, 100, CHECK_READ);
    f = script_find(&run, FINDING_UNINITIALISED, 0, x);
    ck_assert(f != NULL);
    ck_assert_uint_eq(f->memory.offset, 100);
    ck_assert_uint_eq(f->memory.size, 50);
    ck_assert_uint_eq(f->memory.address, (MEMORY << 20) + 100);
    ck_assert_uint_eq(run.findings.n, 1);
}
END_TEST

START_TEST(test_free_beside_task)
{
    x = write_by(1);
    if (_i)
        say_sync(&run, 1);
    y = say_memory_gone(&run, MEMORY);
    if (_i)
        expect_nothing();
    else
        expect_race();
}
END_TEST

/* The task was given before the free, and has not begun. */
START_TEST(test_free_before_task)
{
    say_callback(&run, 1, 1, true);
    x = write_by(1);
    say_called(&run, CHECK_CALLBACK_BEGIN, 1, 1);
    y = say_memory_gone(&run, MEMORY);
    if (!_i) {
        expect_race();
        return;
    }
    say_called(&run, CHECK_CALLBACK_END, 1, 1);
    model_end(&run.model);
    ck_assert(script_find(&run, FINDING_USE_AFTER_FREE, y, x) != NULL);
    ck_assert_uint_eq(run.findings.n, 1);
}
END_TEST

/* A word races with nothing but that. */
START_TEST(test_free_of_a_word)
{
    x = say_value(&run, 1, MEMORY, 8, TASK_VALUE_WRITE, 7, 0);
    y = say_memory_gone(&run, MEMORY);
    expect_race();
}
END_TEST

START_TEST(test_use_after_free)
{
    x = say_memory_gone(&run, MEMORY);
    for (unsigned i = 1; i <= 2; i++) {
        y = say_set(&run, 1, MEMORY, 0, 4096);
        ck_assert(script_find(&run, FINDING_USE_AFTER_FREE, x, y) != NULL);
        ck_assert_uint_eq(run.findings.n, i);
    }
}
END_TEST

START_TEST(test_beyond)
{
    y = say_set(&run, 1, MEMORY, 4000, 100);
    ck_assert(script_find(&run, FINDING_USE_AFTER_FREE, 0, y) != NULL);
    ck_assert(run.findings.list[0].memory.beyond);
    ck_assert_uint_eq(run.findings.list[0].memory.offset, 4096);
    ck_assert_uint_eq(run.findings.list[0].memory.size, 4);
}
END_TEST

/* Only the tasks of the process that closes. */
START_TEST(test_close)
{
    say_export(&run, MEMORY, 9);
    run.process = 1;
    say_stream(&run, 1);
    say_memory(&run, 7, 9, true);
    run.process = 0;
    if (_i)
        write_by(1);
    run.process = 1;
    x = _i ? 0 : say_set(&run, 1, 7, 0, 64);
    y = say_memory_gone(&run, 7);
    if (_i)
        expect_nothing();
    else
        expect_race();
    ck_assert(_i || run.findings.list[0].second.what == ACT_CLOSE);
}
END_TEST

START_TEST(test_unmap)
{
    say_map(&run, CHECK_MAP, MEMORY, 0, 128);
    x = say_set(&run, 1, MEMORY, _i ? 128 : 100, 64);
    y = say_map(&run, CHECK_UNMAP, MEMORY, 0, 128);
    if (_i)
        expect_nothing();
    else
        expect_race();
}
END_TEST

START_TEST(test_pool)
{
    say_pool(&run, CHECK_POOL_ALLOC, 1, MEMORY, 64);
    write_by(1);
    x = say_pool(&run, CHECK_POOL_FREE, 1, MEMORY, 64);
    expect_nothing();
    y = write_by(1);
    ck_assert(script_find(&run, FINDING_USE_AFTER_FREE, x, y) != NULL);
    say_pool(&run, CHECK_POOL_ALLOC, 1, MEMORY, 64);
    y = read_by(1);
    ck_assert(script_find(&run, FINDING_UNINITIALISED, 0, y) != NULL);
    ck_assert_uint_eq(run.findings.n, 2);
}
END_TEST

START_TEST(test_pool_of_another_stream)
{
    x = say_pool(&run, CHECK_POOL_ALLOC, 1, MEMORY, 64);
    y = write_by(2);
    expect_race();
    ck_assert_uint_eq(run.findings.list[0].first.what, ACT_ALLOC);
}
END_TEST

START_TEST(test_leak)
{
    uint32_t event = say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);

    say_memory_gone(&run, OTHER);
    for (uint64_t i = 2; i <= 3; i++)
        say_stream_gone(&run, i, 0);
    say_plain(&run, CHECK_SESSION_END);
    ck_assert_uint_eq(run.findings.n, 3);
    ck_assert(script_find(&run, FINDING_LEAK, event, 0) != NULL);
    ck_assert_int_eq(run.findings.list[1].object, OBJECT_MEMORY);
    ck_assert_uint_eq(run.findings.list[1].memory.size, 4096);
    script_finish(&run);
    ck_assert_uint_eq(run.findings.n, 3);
}
END_TEST

/* One that has ended its session by aclFinalize (1) has given back all that it ever would. */
START_TEST(test_killed_leaks_nothing)
{
    run.world.processes[0].ended = false;
    say_plain(&run, CHECK_SESSION_BEGIN);
    write_by(1);
    if (_i)
        say_plain(&run, CHECK_SESSION_END);
    model_end_process(&run.model, 0);
    script_finish(&run);
    ck_assert_int_eq(run.world.processes[0].lost, !_i);
    ck_assert_int_eq(run.findings.n > 0, !!_i);
}
END_TEST

START_TEST(test_unfinished)
{
    write_by(1);
    x = write_by(1);
    if (_i)
        say_sync(&run, 1);
    script_finish(&run);
    ck_assert(!script_find(&run, FINDING_UNFINISHED, x, 0) == !!_i);
}
END_TEST

START_TEST(test_empty_wait)
{
    say_event(&run, EVENT, CHECK_EVENT_PLAIN, 0);
    x = 0;
    if (_i) {
        say_event_use(&run, CHECK_RECORD, 1, EVENT, 1);
        x = say_event_use(&run, CHECK_RESET, 1, EVENT, 0);
    }
    y = say_event_use(&run, CHECK_WAIT, 2, EVENT, 0);
    ck_assert(script_find(&run, FINDING_EMPTY_WAIT, x, y) != NULL);
    y = say_event_use(&run, CHECK_EMPTY_SYNC, 0, EVENT, 0);
    ck_assert(script_find(&run, FINDING_EMPTY_WAIT, x, y) != NULL);
    ck_assert_uint_eq(run.findings.n, 2);
}
END_TEST

START_TEST(test_ignored)
{
    x = write_by(1);
    say_stream_gone(&run, 1, 507000);
    ck_assert(script_find(&run, FINDING_IGNORED, x, 0) != NULL);
    ck_assert_int_eq(run.findings.list[0].code, 507000);
}
END_TEST

START_TEST(test_refused)
{
    say_memory_gone(&run, MEMORY);
    script_say(
        &run, &(struct check_refused){.address = (MEMORY << 20) + 8, .size = 8, .why = CHECK_FREED},
        CHECK_REFUSED, sizeof(struct check_refused));
    ck_assert_uint_eq(run.findings.n, 1);
    ck_assert_int_eq(run.findings.list[0].kind, FINDING_USE_AFTER_FREE);
    ck_assert_uint_eq(run.findings.list[0].memory.offset, 8);
    ck_assert_uint_eq(run.findings.list[0].memory.made.what, ACT_ALLOC);
}
END_TEST

/* Nothing grows with the number of tasks. */
START_TEST(test_bounded)
{
    size_t acts = 0, actors = 0;

    for (unsigned i = 0; i < 20000; i++) {
        say_set(&run, 1, MEMORY, i % 64 * 64, 64);
        say_access(&run, 1, MEMORY, i % 32 * 64, 64, CHECK_READ);
        if (i % 100 == 0)
            say_sync(&run, 1);
        if (i == 1000) {
            acts = run.model.acts.n;
            actors = run.model.n_actors;
        }
    }
    ck_assert_uint_le(run.model.acts.n, acts + 4);
    ck_assert_uint_eq(run.model.n_actors, actors);
    ck_assert_uint_eq(run.findings.n, 0);
}
END_TEST

/* A session has ended, and with it what is known of its memory. */
START_TEST(test_refused_after_session)
{
    struct check_refused r = {.address = 4096, .size = 8, .why = CHECK_FREED};

    say_memory_gone(&run, MEMORY);
    say_plain(&run, CHECK_SESSION_END);
    script_say(&run, &r, CHECK_REFUSED, sizeof(r));
    ck_assert(script_find(&run, FINDING_USE_AFTER_FREE, 0, 0) != NULL);
}
END_TEST

static size_t count_ranges(uint32_t slot)
{
    for (struct name *n = run.model.processes[0].names; n; n = n->hh.next)
        if (n->key.slot == slot)
            return shadow_count(&n->memory->shadow);
    return 0;
}

/* A wait for a word leaves nothing: what it has parted is one range again. */
START_TEST(test_ranges_are_merged)
{
    say_set(&run, 1, OTHER, 0, 4096);
    ck_assert_uint_eq(count_ranges(OTHER), 1);
    for (uint64_t at = 0; at < 4096; at += 64)
        say_value(&run, 1, OTHER, at, TASK_VALUE_WAIT, 0, ACL_STREAM_WAIT_VALUE_GEQ);
    model_end(&run.model);
    ck_assert_uint_eq(count_ranges(OTHER), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check model");
    TCase *orders = suite_case(suite, "orders", 0, set_up, tear_down);
    TCase *found = suite_case(suite, "findings", 0, set_up, tear_down);

    tcase_add_test(orders, test_no_order);
    tcase_add_test(orders, test_read_and_write);
    tcase_add_test(orders, test_reads_do_not_race);
    tcase_add_test(orders, test_stream_order);
    tcase_add_test(orders, test_synchronise);
    tcase_add_test(orders, test_synchronise_since);
    tcase_add_test(orders, test_host_does);
    tcase_add_test(orders, test_host_before);
    tcase_add_loop_test(orders, test_record_wait, CHECK_EVENT_PLAIN, CHECK_EVENT_IPC + 1);
    tcase_add_test(orders, test_recorded_too_early);
    tcase_add_test(orders, test_later_record);
    tcase_add_test(orders, test_wait_means_latest_record);
    tcase_add_test(orders, test_cause_is_forced);
    tcase_add_test(orders, test_chain_of_waits);
    tcase_add_test(orders, test_sync_event);
    tcase_add_test(orders, test_sync_event_covers_no_more);
    tcase_add_loop_test(orders, test_ipc_event, 0, 2);
    tcase_add_loop_test(orders, test_level, 0, 2);
    tcase_add_test(orders, test_level_was_lowered);
    tcase_add_loop_test(orders, test_notify, 0, 2);
    tcase_add_test(orders, test_notify_is_taken);
    tcase_add_test(orders, test_notify_reset);
    tcase_add_test(orders, test_notify_is_taken_once);
    tcase_add_test(orders, test_shared_notify);
    tcase_add_test(orders, test_count_notify);
    tcase_add_test(orders, test_count_waits_for_its_value);
    tcase_add_test(orders, test_count_adds);
    tcase_add_test(orders, test_value);
    tcase_add_test(orders, test_value_by_copy);
    tcase_add_test(orders, test_callback);
    tcase_add_loop_test(orders, test_blocking_callback, 0, 2);
    tcase_add_test(orders, test_calls_of_a_graph);
    tcase_add_test(orders, test_destroyed_stream);
    tcase_add_loop_test(orders, test_seen_host, 0, 2);
    tcase_add_test(orders, test_seen_destroyed);

    tcase_add_test(found, test_uninitialised);
    tcase_add_loop_test(found, test_free_beside_task, 0, 2);
    tcase_add_loop_test(found, test_free_before_task, 0, 2);
    tcase_add_test(found, test_free_of_a_word);
    tcase_add_test(found, test_use_after_free);
    tcase_add_test(found, test_beyond);
    tcase_add_loop_test(found, test_close, 0, 2);
    tcase_add_loop_test(found, test_unmap, 0, 2);
    tcase_add_test(found, test_pool);
    tcase_add_test(found, test_pool_of_another_stream);
    tcase_add_test(found, test_leak);
    tcase_add_loop_test(found, test_killed_leaks_nothing, 0, 2);
    tcase_add_loop_test(found, test_unfinished, 0, 2);
    tcase_add_loop_test(found, test_empty_wait, 0, 2);
    tcase_add_test(found, test_ignored);
    tcase_add_test(found, test_refused);
    tcase_add_test(found, test_refused_after_session);
    tcase_add_test(found, test_bounded);
    tcase_add_test(found, test_ranges_are_merged);
    return run_suite(suite);
}
