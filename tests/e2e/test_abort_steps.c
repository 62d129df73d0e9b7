/*
 * An abort of a stream has two steps: npud holds the stream and says what it discards, the library
 * tells its threads, and then the stream goes on empty. A client that ends between the steps, or
 * takes them in any order, harms no other process: the waiters for a discarded task get an error,
 * the work of other processes goes on, and npud keeps nothing of that client.
 *
 * Likewise a stop of work that the client runs itself, but only for a client that knows of that.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/raw.h"

#define HOUR (UINT64_C(3600) * 1000000000)
#define TOLD ACL_ERROR_RT_STREAM_ABORT

static aclrtStream stream, probe;
static aclrtEvent event;
static struct {
    aclrtIpcEventHandle handle;
} * shared;

/* --- the client that aborts; its streams: [0] is aborted, [1] waits for it, [2] is a probe --- */

static struct raw raw;
static struct raw_object ipc;
static uint64_t discarded_from, discarded_to;

static void submit_task(unsigned i, struct task task)
{
    raw_put(&raw, &raw.stream[i], &task);
    raw_ring(&raw, &raw.stream[i]);
}

static uint64_t read_done(unsigned i)
{
    return atomic_load(&raw.stream[i].ctrl->done);
}

/* What was submitted before has been looked at. */
static void take_turns(void)
{
    for (int i = 0; i < 3; i++) {
        submit_task(2, (struct task){.op = TASK_DELAY});
        raw_wait(&raw.stream[2]);
    }
}

/* A record is queued behind a task without end, and a stream waits for that. */
static void set_up(void)
{
    struct task record = {.op = TASK_IPC_RECORD}, wait = {.op = TASK_WAIT_POS};
    uint64_t blocker;

    ck_assert(raw_open(&raw) && raw_open_device(&raw, 0));
    for (int i = 0; i < 3; i++)
        ck_assert(raw_create_stream(&raw, 0));
    ck_assert(raw_open_ipc(&raw, &shared->handle, &ipc));
    submit_task(0, (struct task){.op = TASK_DELAY});
    raw_wait(&raw.stream[0]);
    discarded_from = raw.stream[0].tail;
    submit_task(0, (struct task){.op = TASK_DELAY, .delay.ns = HOUR});
    record.object = ipc.slot;
    record.generation = ipc.generation;
    record.ipc.number = ipc_take(ipc.at, ipc.opener, IPC_PENDING, &blocker);
    submit_task(0, record);
    discarded_to = raw.stream[0].tail;
    wait.object = raw.stream[0].slot;
    wait.wait.target = discarded_to;
    submit_task(1, wait);
    take_turns();
}

static void hold_stream(void)
{
    uint64_t from = 0, to = 0;

    ck_assert(raw_hold_stream(&raw, 0, &from, &to));
    ck_assert_uint_eq(from, discarded_from);
    ck_assert_uint_eq(to, discarded_to);
    take_turns();
    ck_assert_uint_eq(read_done(0), discarded_from);
    ck_assert_uint_eq(read_done(1) + 1, raw.stream[1].tail);
}

static void discard_tasks(void)
{
    ck_assert(raw_abort_stream(&raw, 0, TOLD));
    raw_wait(&raw.stream[1]);
    ck_assert_int_eq(stream_error_code(atomic_exchange(&raw.stream[1].ctrl->error, 0)), TOLD);
}

static void abort_again(void)
{
    uint64_t from = 0, to = 0, before = raw.stream[0].tail;

    submit_task(0, (struct task){.op = TASK_DELAY, .delay.ns = HOUR});
    take_turns();
    ck_assert(raw_hold_stream(&raw, 0, &from, &to));
    ck_assert_uint_eq(from, before);
    ck_assert_uint_eq(to, before + 1);
    ck_assert(raw_abort_stream(&raw, 0, 0));
    raw_wait(&raw.stream[0]);
}

/* The stream does what comes after the abort, and can be aborted again. */
static void go_on(void)
{
    ck_assert_uint_ge(read_done(0), discarded_to);
    submit_task(0, (struct task){.op = TASK_DELAY});
    raw_wait(&raw.stream[0]);
    ck_assert_int_eq(stream_error_code(atomic_load(&raw.stream[0].ctrl->error)), 0);
    abort_again();
}

/* --- what it does when its stream is held --- */

static void never_discards(void)
{
    hold_stream();
}

static void take_second_step(void)
{
    hold_stream();
    discard_tasks();
    go_on();
}

static void discards_twice(void)
{
    hold_stream();
    discard_tasks();
    ck_assert(raw_abort_stream(&raw, 0, TOLD));
    go_on();
}

static void holds_twice(void)
{
    hold_stream();
    hold_stream();
    discard_tasks();
    go_on();
}

static void discards_at_once(void)
{
    discard_tasks();
    go_on();
}

/* The task waits for the second step, and is none of those that are discarded. */
static void submits_while_held(void)
{
    hold_stream();
    submit_task(0, (struct task){.op = TASK_DELAY});
    take_turns();
    ck_assert_uint_eq(read_done(0), discarded_from);
    hold_stream();
    discard_tasks();
    raw_wait(&raw.stream[0]);
    go_on();
}

/* A waiter of the stream goes on; the next stream in its place is not held. */
static void destroys_at_once(void)
{
    struct raw_stream waiter = raw.stream[1];

    ck_assert(raw_destroy_stream(&raw, 0));
    raw_wait(&waiter);
    ck_assert(raw_create_stream(&raw, 0));
    submit_task(2, (struct task){.op = TASK_DELAY});
    raw_wait(&raw.stream[2]);
}

static void destroys_while_held(void)
{
    hold_stream();
    destroys_at_once();
}

static void closes_the_event(void)
{
    hold_stream();
    ck_assert(raw_close_ipc(&raw, ipc.slot));
    discard_tasks();
    go_on();
}

static void hangs_up(void)
{
    hold_stream();
    raw_close(&raw);
}

static const struct {
    const char *name;
    void (*act)(void);
    bool npuctl; /* its session is ended while it lives */
} cases[] = {
    {"killed", never_discards, false},
    {"session ended", never_discards, true},
    {"hangs up", hangs_up, false},
    {"second step", take_second_step, false},
    {"second step twice", discards_twice, false},
    {"first step twice", holds_twice, false},
    {"second step without the first", discards_at_once, false},
    {"submits while held", submits_while_held, false},
    {"destroys the stream that is held", destroys_while_held, false},
    {"destroys the stream without a step", destroys_at_once, false},
    {"closes the event", closes_the_event, false},
};

static int run_child(void *arg)
{
    turn_await(&to_child);
    set_up();
    turn_tell(&to_parent);
    turn_await(&to_child);
    cases[(intptr_t)arg].act();
    turn_tell(&to_parent);
    pause();
    return 0;
}

/* --- the others --- */

static void end_session_of(pid_t pid)
{
    char words[64];

    snprintf(words, sizeof(words), "kill %llu", (unsigned long long)npud_session_of(pid));
    npuctl_says(words, 0, "");
}

/* All that others do goes on: on the same device, and with the same event. */
static void complete_own_work(void)
{
    OK(aclnpudLaunchDelay(1, 0, stream));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEventWithTimeout(event, LIMIT_MS));
    OK(aclrtStreamWaitEvent(probe, event));
    OK(aclrtSynchronizeStreamWithTimeout(probe, LIMIT_MS));
}

START_TEST(between_the_steps)
{
    pid_t pid = child_start(run_child, (void *)(intptr_t)_i);

    streams_open(&stream, &probe);
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &shared->handle));
    turn_tell(&to_child);
    turn_await(&to_parent);
    OK(aclrtStreamWaitEvent(stream, event));
    engine_turn(probe);
    ck_assert(!idle(stream));
    turn_tell(&to_child);
    turn_await(&to_parent);
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeEventWithTimeout(event, LIMIT_MS));
    complete_own_work();
    if (cases[_i].npuctl)
        end_session_of(pid);
    else
        child_kill(pid);
    npud_await_sessions(1);
    complete_own_work();
    if (cases[_i].npuctl)
        child_kill(pid);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

/* --- a stop --- */

/* The ordinal that npud tells; 0 without an answer to that. */
static uint64_t stop_task(bool tell_work)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__StopTask stop = NPUD__STOP_TASK__INIT;
    Npud__Reply *reply;
    uint64_t work = 0;

    stop.slot = raw.stream[0].slot;
    stop.tell_work = tell_work;
    request.stop_task = &stop;
    request.body_case = NPUD__REQUEST__BODY_STOP_TASK;
    reply = raw_ask(&raw, &request, NULL);
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->error, 0);
    ck_assert_int_eq(reply->body_case,
                     tell_work ? NPUD__REPLY__BODY_STOP_TASK : NPUD__REPLY__BODY__NOT_SET);
    if (tell_work)
        work = reply->stop_task->work;
    npud__reply__free_unpacked(reply, NULL);
    return work;
}

/*
 * A library of before, which leaves the member out (0), would never say that its work is over. Work
 * that may not have been taken from the ring (1) is stopped for one that knows of it.
 */
START_TEST(a_stop_waits_only_for_who_knows)
{
    bool knows = _i != 0;
    struct task work = {.op = TASK_CALLBACK,
                        .callback = {.ordinal = 1, .word = CALLBACK_WORD_WORK, .block = 1}};

    ck_assert(raw_open(&raw) && raw_open_device(&raw, 0));
    for (int i = 0; i < 3; i++)
        ck_assert(raw_create_stream(&raw, 0));
    submit_task(0, work);
    submit_task(0, (struct task){.op = TASK_DELAY});
    if (_i != 1)
        take_turns();
    ck_assert_uint_eq(stop_task(knows), knows);
    if (knows) {
        take_turns();
        ck_assert_uint_eq(read_done(0), 0);
        atomic_store(&raw.stream[0].ctrl->callbacks_done, 1);
        raw_ring(&raw, &raw.stream[0]);
    }
    raw_wait(&raw.stream[0]);
    ck_assert_int_eq(stream_error_code(atomic_load(&raw.stream[0].ctrl->error)), TOLD);
    raw_close(&raw);
    npud_expect_empty();
}
END_TEST

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
}

int main(void)
{
    Suite *s = suite_create("abort_steps");
    TCase *t = suite_case(s, "abort_steps", 10, set_up_test, npud_teardown);

    tcase_add_loop_test(t, between_the_steps, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_loop_test(t, a_stop_waits_only_for_who_knows, 0, 3);
    return run_suite(s);
}
