/*
 * What an engine does in one turn, when tens of thousands of streams can go on at the same moment:
 * a part of it. The engines have no thread here; each turn is a call.
 */
#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/control/session_hear.h"
#include "daemon/core/export_key.h"
#include "daemon/core/ipc_record.h"
#include "engine_steps.h"
#include "npud.h"

#define CROWD    600
#define PER_TURN 64 /* streams that may go on in a turn */

static struct session *session;
static struct engine *engine;
static struct stream *crowd[CROWD];

static void begin(void)
{
    npud_start((const char *const[]){"engine.spin_us=0", "stream.depth=256", NULL});
    session = npud_session(1);
    engine = devices_get(server.devices, 0)->engine;
    for (int i = 0; i < CROWD; i++)
        crowd[i] = npud_stream(session, 0);
}

static unsigned count_parked(void)
{
    unsigned n = 0;

    for (int i = 0; i < CROWD; i++)
        n += crowd[i]->run == RUN_PARKED;
    return n;
}

/* Each of the crowd submits this task, and is parked on it. */
static void park_crowd(struct task task)
{
    for (int i = 0; i < CROWD; i++)
        client_submit(crowd[i], task);
    for (int i = 0; i < 2 * CROWD && count_parked() < CROWD; i++)
        engine_turn(engine);
    ck_assert_uint_eq(count_parked(), CROWD);
}

/* All go on, and few of them in each turn. */
static void expect_slices(void)
{
    unsigned parked = CROWD, turns = 0;

    while (parked > 0) {
        unsigned left;

        engine_turn(engine);
        npud_turn();
        left = count_parked();
        ck_assert_msg(parked - left <= PER_TURN, "%u streams went on in one turn", parked - left);
        parked = left;
        ck_assert_uint_lt(++turns, 20 * CROWD);
    }
    ck_assert_uint_ge(turns, CROWD / PER_TURN);
    for (int i = 0; i < CROWD; i++)
        for (turns = 0; !client_passed(crowd[i], 0); turns++) {
            engine_turn(engine);
            ck_assert_uint_lt(turns, CROWD);
        }
}

static struct ipc_open *make_event(void)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_new(session, 0, &open), 0);
    return open;
}

static struct task wait_for_record(const struct ipc_open *open, uint64_t number)
{
    return (struct task){.op = TASK_IPC_WAIT,
                         .object = open->slot.number,
                         .generation = slot_generation(open),
                         .ipc.number = number};
}

static uint64_t take_record(const struct ipc_open *open)
{
    uint64_t blocker;

    return ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &blocker);
}

static uint32_t count_waiting(const struct ipc_open *open)
{
    return atomic_load(&open->event->completed.n);
}

/* All of them wait for the same record. What is not let go at once is, in steps. */
START_TEST(streams_that_wait_for_one_record)
{
    struct ipc_open *open = make_event();
    struct job *settle = &open->event->settle;
    uint64_t number = take_record(open);
    uint32_t left;

    park_crowd(wait_for_record(open, number));
    ipc_record_complete(open, number);
    left = count_waiting(open);
    ck_assert_uint_ge(left, CROWD - PER_TURN);
    ck_assert(job_cancel(settle));
    ck_assert(settle->run(settle)); /* there is more to do */
    ck_assert_uint_lt(count_waiting(open), left);
    ck_assert_uint_gt(count_waiting(open), 0);
    job_list(settle);
    npud_turn();
    ck_assert_uint_eq(count_waiting(open), 0);
    expect_slices();
    for (int i = 0; i < CROWD; i++)
        ck_assert_uint_eq(atomic_load(&crowd[i]->ctrl->error), 0);
}
END_TEST

/* A record that is asked for while the job is at work: it begins once more. */
START_TEST(a_record_that_is_over_meanwhile)
{
    struct ipc_open *open = make_event();
    struct job *settle = &open->event->settle;
    uint64_t first = take_record(open), second = take_record(open);

    for (int i = 0; i < CROWD; i++)
        client_submit(crowd[i], wait_for_record(open, i < CROWD / 4 ? first : second));
    while (count_parked() < CROWD)
        engine_turn(engine);
    ipc_record_complete(open, second);
    ck_assert(job_cancel(settle));
    ck_assert(settle->run(settle) || count_waiting(open) == CROWD / 4);
    ipc_record_complete(open, first);
    ck_assert_uint_gt(count_waiting(open), 0);
    job_list(settle);
    npud_turn();
    ck_assert_uint_eq(count_waiting(open), 0);
    expect_slices();
}
END_TEST

/* An opener leaves that has spoiled the page: all that wait fail, with its pid. */
START_TEST(streams_that_wait_on_a_damaged_page)
{
    struct session *hostile = npud_session(4711);
    struct ipc_open *open = make_event(), *theirs;

    ck_assert_int_eq(ipc_event_export(open), 0);
    ck_assert_int_eq(ipc_event_open(hostile, &open->event->handle, &theirs), 0);
    park_crowd(wait_for_record(open, take_record(theirs)));
    atomic_store(&open->event->page->slot[7], UINT64_C(3) << 32 | 77 << 16 | IPC_PENDING);
    session_free(hostile);
    ck_assert_uint_gt(count_waiting(open), 0);
    npud_turn();
    ck_assert_uint_eq(count_waiting(open), 0);
    expect_slices();
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(stream_error_pid(atomic_load(&crowd[i]->ctrl->error)), 4711);
    ck_assert(!open->event->damaged);
}
END_TEST

/* The limits of all of them end at once. */
START_TEST(streams_whose_time_is_over)
{
    struct ipc_open *open = make_event();
    struct task task = wait_for_record(open, take_record(open));

    task.ipc.timeout_ns = 3600 * NSEC_PER_SEC;
    park_crowd(task);
    for (int i = 0; i < CROWD; i++) {
        timers_clear(&engine->timers, &crowd[i]->timer);
        ck_assert_int_eq(timers_set(&engine->timers, &crowd[i]->timer, clock_ns()), 0);
    }
    expect_slices();
}
END_TEST

/* --- the end of a session --- */

static void end_step(void)
{
    ck_assert(job_cancel(&session->end));
    if (session->end.run(&session->end))
        job_list(&session->end);
}

/*
 * Its streams are taken from the engine in steps. From the first step on none of them goes on, also
 * when what it waits for comes in between.
 */
START_TEST(streams_of_a_session_that_ends)
{
    struct session *other = npud_session(4711);
    struct ipc_open *open = make_event(), *theirs;
    uint64_t number;

    ck_assert_int_eq(ipc_event_export(open), 0);
    ck_assert_int_eq(ipc_event_open(other, &open->event->handle, &theirs), 0);
    number = take_record(theirs);
    park_crowd(wait_for_record(open, number));
    session_end(session);
    end_step();
    ck_assert(session->halted);
    ck_assert(!session->forgotten);
    ck_assert_uint_ge(count_parked(), CROWD - PER_TURN);
    ipc_record_complete(theirs, number);
    job_cancel(&open->event->settle);
    while (open->event->settle.run(&open->event->settle))
        ;
    for (int turns = 0; turns < CROWD; turns++)
        engine_turn(engine);
    for (int i = 0; i < CROWD; i++) {
        ck_assert(crowd[i]->run == RUN_IDLE);
        ck_assert(!client_passed(crowd[i], 0));
    }
    for (int steps = 0; !session->forgotten; steps++) {
        ck_assert_uint_lt(steps, CROWD);
        end_step();
    }
    ck_assert(session->streams.live > 0);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 1);
}
END_TEST

/* --- words: a write looks at all waits for them --- */

static struct mem *memory;
static struct stream *writer;

static struct stream *stream_in_context(uint32_t context)
{
    struct stream *stream;
    int fd;

    ck_assert_int_eq(stream_new(session, session_attach(session, 0), context, 0, 0, &stream, &fd),
                     0);
    return stream;
}

static struct task word_task(unsigned op)
{
    return (struct task){.op = (uint8_t)op,
                         .object = memory->slot.number,
                         .generation = slot_generation(memory),
                         .value.value = 7};
}

/* All of the crowd wait for a word; it is written, and some of them have been told. */
static void write_to_crowd(void)
{
    ck_assert_int_eq(
        allocation_new(session, devices_get(server.devices, 0), MEM_DEVICE, 4096, &memory), 0);
    writer = stream_in_context(1);
    park_crowd(word_task(TASK_VALUE_WAIT));
    client_submit(writer, word_task(TASK_VALUE_WRITE));
    for (int turns = 0; !writer->changing; turns++) {
        engine_turn(engine);
        ck_assert_int_lt(turns, CROWD);
    }
    ck_assert_uint_gt(count_parked(), CROWD / 2);
}

/* All that still wait go on, few in each turn. */
static void expect_rest_in_slices(void)
{
    unsigned parked = count_parked(), turns = 0;

    while (parked > 0) {
        unsigned left;

        engine_turn(engine);
        left = count_parked();
        ck_assert_uint_le(parked - left, PER_TURN);
        parked = left;
        ck_assert_uint_lt(++turns, 20 * CROWD);
    }
}

/* The stream goes: the others are told in steps of the session. */
START_TEST(a_writer_that_goes)
{
    uint32_t left;

    write_to_crowd();
    left = atomic_load(&memory->pages->values.n);
    stream_free(writer);
    ck_assert_uint_ge(atomic_load(&memory->pages->values.n), left - PER_TURN);
    ck_assert_ptr_nonnull(session->value_rests);
    npud_turn();
    ck_assert_uint_eq(atomic_load(&memory->pages->values.n), 0);
    ck_assert_ptr_null(session->value_rests);
    expect_rest_in_slices();
}
END_TEST

/* The stream is stopped by another one of its context: the engine tells the others in steps. */
START_TEST(a_writer_that_is_stopped)
{
    struct stream *failing = stream_in_context(1);

    stream_stop_at_failure(failing);
    write_to_crowd();
    client_submit(failing, (struct task){.op = 255});
    for (int turns = 0; atomic_load(&writer->stopped) == 0; turns++) {
        engine_turn(engine);
        ck_assert_int_lt(turns, CROWD);
    }
    ck_assert_uint_gt(count_parked(), 2 * PER_TURN);
    expect_rest_in_slices();
}
END_TEST

/* --- tasks that glances find --- */

static struct task set_task(uint64_t size)
{
    struct task task = word_task(TASK_SET);

    task.set.offset = 0;
    task.set.size = size;
    return task;
}

/* The engine has found a task of this stream before, so it glances at its ring. */
static void begin_writer(void)
{
    ck_assert_int_eq(
        allocation_new(session, devices_get(server.devices, 0), MEM_DEVICE, 8192, &memory), 0);
    writer = stream_in_context(1);
    client_submit(writer, (struct task){.op = TASK_NOP});
    for (int turns = 0; writer->run != RUN_ACTIVE || !client_passed(writer, 0); turns++) {
        engine_turn(engine);
        ck_assert_int_lt(turns, CROWD);
    }
}

static void run_quick(struct task task)
{
    uint64_t position = client_submit(writer, task);

    ck_assert(engine_run_quick(engine, writer, engine->meter.begun));
    ck_assert(client_passed(writer, position));
    ck_assert_uint_eq(atomic_load(&writer->ctrl->error), 0);
}

/* All busy time so far. */
static uint64_t busy_ns(void)
{
    uint64_t ns = 0;

    for (int i = 0; i < BUSY_BINS; i++)
        ns += engine->busy.bin[i].ns;
    return ns;
}

/* Moves of few bytes belong to the step of the glances around them, and are counted. */
START_TEST(tiny_moves_read_no_clock)
{
    uint64_t begun, busy;

    begin_writer();
    busy = busy_ns();
    begun = engine->meter.begun;
    run_quick(set_task(1));
    run_quick(set_task(256));
    ck_assert_uint_eq(engine->tiny_moves, 2);
    run_quick(word_task(TASK_VALUE_WRITE));
    run_quick((struct task){.op = TASK_DELAY});
    ck_assert_uint_eq(engine->tiny_moves, 2);
    ck_assert(!engine->did_work);
    ck_assert_uint_eq(engine->meter.begun, begun);
    usage_end_step(engine, begun + NSEC_PER_MSEC);
    ck_assert_uint_eq(busy_ns() - busy, 2 * TINY_NS);
    ck_assert_uint_eq(engine->tiny_moves, 0);
}
END_TEST

/* No more than the step has taken. */
START_TEST(tiny_moves_of_a_short_step)
{
    uint64_t begun, busy;

    begin_writer();
    engine_turn(engine);
    busy = busy_ns();
    begun = engine->meter.begun;
    run_quick(set_task(8));
    run_quick(set_task(8));
    usage_end_step(engine, begun + 70);
    ck_assert_uint_eq(busy_ns() - busy, 70);
}
END_TEST

/* Others are a step each, and those of many bytes are for a full turn. */
START_TEST(moves_that_are_timed)
{
    uint64_t begun, busy;

    begin_writer();
    for (uint64_t size = 257; size <= 4096; size += 4096 - 257) {
        begun = engine->meter.begun;
        busy = busy_ns();
        run_quick(set_task(size));
        ck_assert_uint_eq(engine->tiny_moves, 0);
        ck_assert_uint_gt(engine->meter.begun, begun);
        ck_assert_uint_gt(busy_ns(), busy);
        ck_assert_uint_lt(busy_ns() - busy, engine->meter.begun - begun);
    }
    client_submit(writer, set_task(4097));
    ck_assert(!engine_run_quick(engine, writer, engine->meter.begun));
}
END_TEST

/* --- counters: a record looks at all waits --- */

static struct notify_open *counter;
static struct stream *recording;

static struct task count_task(unsigned op, unsigned mode, uint32_t value, bool clear)
{
    return (struct task){.op = (uint8_t)op,
                         .object = counter->slot.number,
                         .generation = slot_generation(counter),
                         .notify.mode = (uint8_t)mode,
                         .notify.value = value,
                         .notify.clear = clear};
}

static uint64_t submit_set(struct stream *stream, uint32_t value)
{
    return client_submit(stream, count_task(TASK_COUNT_RECORD,
                                            ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, value, false));
}

static uint64_t submit_wait(struct stream *stream, uint32_t value, bool clear)
{
    return client_submit(
        stream, count_task(TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, value, clear));
}

/* The first half of the crowd waits for `first`, the other for `second`. */
static void make_counter(uint32_t first, uint32_t second)
{
    ck_assert_int_eq(notify_new(session, devices_get(server.devices, 0), true, &counter), 0);
    recording = npud_stream(session, 0);
    for (int i = 0; i < CROWD; i++) {
        submit_wait(crowd[i], i < CROWD / 2 ? first : second, false);
        while (crowd[i]->run != RUN_PARKED)
            engine_turn(engine);
    }
}

/*
 * A record that is dropped fails the waits that are there, few of them in a step. A wait that comes
 * meanwhile is none of them.
 */
START_TEST(a_dropped_count_fails_waits_in_slices)
{
    unsigned left = CROWD, steps = 0;
    struct stream *late;
    struct task record;

    make_counter(1, 2);
    record = count_task(TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1, false);
    notify_drop_task(recording, 0, &record, KEPT_CONTROL);
    ck_assert_uint_ge(atomic_load(&counter->notify->waiting.n) + PER_TURN, CROWD);
    late = npud_stream(session, 0);
    submit_wait(late, 3, false);
    while (late->run != RUN_PARKED)
        engine_turn(engine);
    AWAIT((event_base_loop(server.base, EVLOOP_NONBLOCK | EVLOOP_ONCE),
           counter->notify->fail.listed));
    for (bool more = job_cancel(&counter->notify->fail); more; steps++) {
        unsigned before = atomic_load(&counter->notify->waiting.n);

        more = counter->notify->fail.run(&counter->notify->fail);
        left = atomic_load(&counter->notify->waiting.n);
        ck_assert_uint_le(before - left, PER_TURN);
    }
    ck_assert_uint_ge(steps, CROWD / PER_TURN - 1);
    ck_assert_uint_eq(left, 1);
    for (int turns = 0; turns < 2 * CROWD && count_parked() > 0; turns++)
        engine_turn(engine);
    ck_assert_uint_eq(count_parked(), 0);
    ck_assert_int_eq(late->run, RUN_PARKED);
    /* The next one is for the late wait, too. */
    notify_drop_task(recording, 1, &record, KEPT_CONTROL);
    ck_assert_uint_eq(atomic_load(&counter->notify->waiting.n), 0);
}
END_TEST

/* Until the engine is in the middle of looking at waits. */
static void await_look(void)
{
    for (int turns = 0; !counter->notify->live->looking; turns++) {
        engine_turn(engine);
        ck_assert_int_lt(turns, CROWD);
    }
}

static void await_passed(struct stream *stream, uint64_t position)
{
    for (int turns = 0; !client_passed(stream, position); turns++) {
        engine_turn(engine);
        ck_assert_int_lt(turns, 20 * CROWD);
    }
}

/* The next record has its turn when that is over, so that each wait sees each value. */
START_TEST(each_wait_sees_each_count)
{
    struct stream *next;
    uint64_t next_at;

    make_counter(2, 1);
    next = npud_stream(session, 0);
    submit_set(recording, 1);
    await_look();
    next_at = submit_set(next, 2);
    engine_turn(engine);
    ck_assert(!client_passed(next, next_at));
    expect_slices();
    await_passed(next, next_at);
    ck_assert_uint_eq(notify_value(counter->notify), 2);
}
END_TEST

/* What its record has changed is looked at to the end, when the stream goes in the middle of it. */
START_TEST(a_stream_that_goes_leaves_no_wait_behind)
{
    make_counter(3, 1);
    submit_set(recording, 1);
    await_look();
    ck_assert_uint_ne(recording->count_change, 0);
    stream_free(recording);
    ck_assert(counter->notify->live->looking);
    ck_assert(counter->notify->look.listed);
    npud_turn();
    ck_assert(!counter->notify->live->looking);
    for (int i = CROWD / 2; i < CROWD; i++)
        await_passed(crowd[i], 0);
    ck_assert_uint_eq(count_parked(), CROWD / 2);
}
END_TEST

/* It was not its turn yet, and it fails the waits that it might have ended. */
START_TEST(a_record_that_goes_before_its_turn)
{
    struct stream *next;

    make_counter(3, 1);
    next = npud_stream(session, 0);
    submit_set(recording, 1);
    await_look();
    submit_set(next, 3);
    while (next->count_change == 0)
        engine_turn(engine);
    stream_free(next);
    npud_turn();
    for (int i = 0; i < CROWD; i++)
        await_passed(crowd[i], 0);
    ck_assert_int_ne(stream_error_code(atomic_load(&crowd[0]->ctrl->error)), 0);
    ck_assert_uint_eq(notify_value(counter->notify), 1);
}
END_TEST

/*
 * A wait that comes while a record looks at waits is behind those that were there: the first of
 * them that clears the counter has it alone.
 */
START_TEST(a_wait_that_comes_meanwhile_is_the_last)
{
    struct stream *old, *young;
    uint64_t old_at, young_at;

    make_counter(2, 2);
    old = npud_stream(session, 0);
    young = npud_stream(session, 0);
    old_at = submit_wait(old, 1, true);
    while (old->run != RUN_PARKED)
        engine_turn(engine);
    submit_set(recording, 1);
    await_look();
    young_at = submit_wait(young, 1, true);
    await_passed(old, old_at);
    for (int turns = 0; turns < CROWD; turns++)
        engine_turn(engine);
    ck_assert(!client_passed(young, young_at));
    await_passed(recording, submit_set(recording, 1));
    await_passed(young, young_at);
}
END_TEST

/* --- a notify that no other session records any more --- */

static struct notify_open *import_notify(struct session *by, const struct notify_open *open)
{
    struct notify_open *imported;
    char text[EXPORT_KEY_TEXT];

    export_key_encode(&open->notify->key, text);
    ck_assert_int_eq(notify_import(by, text, sizeof(text), &imported), 0);
    return imported;
}

static struct notify_open *export_notify(struct session *by)
{
    struct notify_open *open;

    ck_assert_int_eq(notify_new(by, devices_get(server.devices, 0), false, &open), 0);
    ck_assert_int_eq(notify_export(open, true), 0);
    return open;
}

static struct task notify_task(unsigned op, const struct notify_open *open)
{
    return (struct task){
        .op = (uint8_t)op, .object = open->slot.number, .generation = slot_generation(open)};
}

/* Steps of the job, each of which lets few go. Those that were there fail, with this pid. */
static void expect_deserted(struct notify *n, pid_t pid)
{
    unsigned steps = 0;

    for (bool more = job_cancel(&n->fail); more; steps++) {
        unsigned before = atomic_load(&n->waiting.n);

        more = n->fail.run(&n->fail);
        ck_assert_uint_le(before - atomic_load(&n->waiting.n), PER_TURN);
    }
    ck_assert_uint_ge(steps, CROWD / PER_TURN - 1);
    for (int i = 0; i < CROWD; i++) {
        await_passed(crowd[i], 0);
        ck_assert_uint_eq(client_error(crowd[i]),
                          stream_error_make(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, (int32_t)pid));
    }
}

/*
 * The waits that are there fail, few of them in a step. A record that comes meanwhile is for none
 * of them, but for the next wait.
 */
START_TEST(a_deserted_notify_fails_waits_in_slices)
{
    struct notify_open *open = export_notify(session);
    struct notify_open *imported = import_notify(npud_session(2), open);
    struct stream *recorder = npud_stream(session, 0), *late = npud_stream(session, 0);

    park_crowd(notify_task(TASK_NOTIFY_WAIT, open));
    notify_open_free(imported);
    ck_assert_uint_eq(atomic_load(&open->notify->waiting.n) + PER_TURN, CROWD);
    await_passed(recorder, client_submit(recorder, notify_task(TASK_NOTIFY_RECORD, open)));
    ck_assert_uint_eq(notify_value(open->notify), 1);
    await_passed(late, client_submit(late, notify_task(TASK_NOTIFY_WAIT, open)));
    ck_assert_uint_eq(client_error(late), 0);
    ck_assert_uint_eq(atomic_load(&open->notify->waiting.n) + PER_TURN, CROWD);
    expect_deserted(open->notify, 2);
}
END_TEST

/* The session whose job it is lets go of the notify, too, and another one has come. */
START_TEST(what_waits_for_a_deserted_notify_fails_all_the_same)
{
    struct notify_open *made = export_notify(npud_session(3));
    struct notify_open *open = import_notify(session, made);
    struct notify_open *imported = import_notify(npud_session(2), made);

    park_crowd(notify_task(TASK_NOTIFY_WAIT, open));
    notify_open_set_over(made, true);
    notify_open_free(imported);
    ck_assert_ptr_eq(open->notify->fail.owner, &made->session->owner);
    import_notify(npud_session(4), made);
    session_free(made->session);
    ck_assert(open->notify->fail.listed);
    ck_assert_ptr_eq(open->notify->fail.owner, &session->owner);
    expect_deserted(open->notify, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine steps");
    TCase *c = suite_case(s, "turns", 60, begin, npud_stop);

    tcase_add_test(c, streams_that_wait_for_one_record);
    tcase_add_test(c, a_record_that_is_over_meanwhile);
    tcase_add_test(c, streams_that_wait_on_a_damaged_page);
    tcase_add_test(c, streams_whose_time_is_over);
    tcase_add_test(c, streams_of_a_session_that_ends);
    tcase_add_test(c, a_writer_that_goes);
    tcase_add_test(c, a_writer_that_is_stopped);
    tcase_add_test(c, tiny_moves_read_no_clock);
    tcase_add_test(c, tiny_moves_of_a_short_step);
    tcase_add_test(c, moves_that_are_timed);
    tcase_add_test(c, each_wait_sees_each_count);
    tcase_add_test(c, a_stream_that_goes_leaves_no_wait_behind);
    tcase_add_test(c, a_record_that_goes_before_its_turn);
    tcase_add_test(c, a_wait_that_comes_meanwhile_is_the_last);
    tcase_add_test(c, a_dropped_count_fails_waits_in_slices);
    tcase_add_test(c, a_deserted_notify_fails_waits_in_slices);
    tcase_add_test(c, what_waits_for_a_deserted_notify_fails_all_the_same);
    return run_suite(s);
}
