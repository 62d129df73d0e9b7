#include "daemon/engine/execute.h"

#include <assert.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/notify.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/graph.h"
#include "daemon/engine/notify_tasks.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/value.h"
#include "daemon/engine/work.h"
#include "proto/shm/task.h"
#include "proto/util/clock.h"

/* --- ops --- */

static enum run_result run_nop(struct stream *s, uint64_t now)
{
    struct task *entry = &s->ring[s->live->position & (s->depth - 1)];

    (void)now;
    /* Relaxed: the client reads it after `done`, which is stored with release. */
    if (s->live->task.flags & TASK_NOP_TIME)
        atomic_store_explicit(&entry->stamp.ns, clock_ns(), memory_order_relaxed);
    return RUN_RETIRED;
}

static struct event_obj *task_event(struct stream *s)
{
    return slots_get_generation(&s->session->events, s->live->task.object,
                                s->live->task.generation);
}

/*
 * The client may destroy an event while records and resets of it are queued: without an event there
 * is nothing to do for them, which is what the API promises.
 */
static enum run_result run_record(struct stream *s, uint64_t now)
{
    struct event_obj *ev = task_event(s);

    (void)now;
    if (s->live->task.flags & (TASK_RECORD_LEVEL | TASK_RECORD_WAKE))
        stream_publish_before(s);
    if (ev)
        event_obj_record(ev, s, s->live->task.record.number, s->live->task.flags);
    return RUN_RETIRED;
}

static enum run_result run_reset(struct stream *s, uint64_t now)
{
    struct event_obj *ev = task_event(s);

    (void)now;
    if (ev)
        event_obj_reset(ev, s);
    return RUN_RETIRED;
}

/* Has the level been up since `count` raises? */
static bool level_passed(uint64_t level, uint64_t count)
{
    return (level & EVENT_LEVEL_UP) || event_level_count(level) != count;
}

/*
 * The count that decides is the one at which the stream parked first. If it is made to look again,
 * what was raised and lowered since then counts as well: no record will fire the stream for that
 * raise any more.
 */
static enum run_result run_wait_level(struct stream *s, uint64_t now)
{
    struct event_obj *ev = task_event(s);
    uint64_t level, count, timeout_ns = s->live->task.wait.timeout_ns;
    int32_t dropped;
    bool passed;

    if (stream_has_begun(s) && (s->waiter.result != EVENT_LOOK_AGAIN || !ev))
        return run_finish_wait(s);
    if (!ev || !run_valid_timeout(timeout_ns))
        return run_bad_entry(s, "no such event");
    level = atomic_load_explicit(&ev->shm->level, memory_order_acquire);
    count = stream_has_waited(s) ? s->live->target : event_level_count(level);
    if (level_passed(level, count))
        return RUN_RETIRED;
    if (run_park(s, &ev->raised, count, timeout_ns, now) < 0)
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    atomic_store(&ev->shm->level_waiters, 1);
    dropped = event_obj_dropped(ev, s->live->task.wait.target);
    passed = level_passed(atomic_load(&ev->shm->level), count);
    if ((!dropped && !passed) || !run_unpark(s))
        return RUN_WAITS;
    if (!passed)
        stream_fail(s, dropped, s->session->pid);
    return RUN_RETIRED;
}

static enum run_result run_wait_pos(struct stream *s, uint64_t now)
{
    struct stream *t = slots_get(&s->session->streams, s->live->task.object);
    uint64_t target = s->live->task.wait.target;
    int32_t stopped, discarded;
    bool order = s->live->task.flags & TASK_WAIT_ORDER;

    if (stream_has_begun(s))
        return order ? RUN_RETIRED : run_finish_wait(s);
    if (!run_valid_timeout(s->live->task.wait.timeout_ns) || (t == s && target > s->live->position))
        return run_bad_entry(s, "waits for itself");
    if (!t || atomic_load_explicit(&t->live->done, memory_order_acquire) >= target) {
        /*
         * A stream that is gone has passed every position it had; what it passed may be discarded.
         */
        discarded = stream_discarded(s->session, s->live->task.object, target);
        if (discarded != 0 && !order)
            stream_fail(s, discarded, 0);
        return RUN_RETIRED;
    }
    if (run_park(s, &t->passed, target, s->live->task.wait.timeout_ns, now) < 0)
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    /* In this order: what it has done before it was stopped is done. */
    stopped = atomic_load(&t->stopped);
    if (atomic_load(&t->live->done) >= target)
        stopped = 0;
    else if (stopped == 0)
        return RUN_WAITS;
    if (!run_unpark(s))
        return RUN_WAITS;
    if (stopped != 0 && !order)
        stream_fail(s, stopped, s->session->pid);
    return RUN_RETIRED;
}

static struct ipc_open *task_ipc_event(struct stream *s)
{
    return slots_get_generation(&s->session->ipc, s->live->task.object, s->live->task.generation);
}

static enum run_result run_ipc_record(struct stream *s, uint64_t now)
{
    struct ipc_open *open = task_ipc_event(s);

    (void)now;
    if (!open)
        return run_bad_entry(s, "no such event");
    stream_publish_before(s);
    ipc_record_complete(open, s->live->task.ipc.number);
    return RUN_RETIRED;
}

static enum run_result run_ipc_wait(struct stream *s, uint64_t now)
{
    struct ipc_open *open = task_ipc_event(s);
    uint64_t number = s->live->task.ipc.number;
    int32_t error, pid = 0;

    if (stream_has_begun(s))
        return run_finish_wait(s);
    if (!open || !run_valid_timeout(s->live->task.ipc.timeout_ns))
        return run_bad_entry(s, "no such event");
    if (!ipc_record_outcome(open->event, number, &error, &pid)) {
        if (run_park(s, &open->event->completed, number, s->live->task.ipc.timeout_ns, now) < 0)
            return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
        /* Off the list first: a record that fails here fires all that are on it. */
        if (!ipc_record_over(open->event, number) || !run_unpark(s))
            return RUN_WAITS;
        if (!ipc_record_outcome(open->event, number, &error, &pid))
            error = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR; /* an opener keeps changing it */
    }
    if (error != 0)
        stream_fail(s, error, pid);
    return RUN_RETIRED;
}

/* --- callbacks --- */

bool execute_callback_done(const struct stream *s)
{
    return atomic_load_explicit(&s->ctrl->callbacks_done, memory_order_acquire) >=
           s->live->task.callback.ordinal;
}

/*
 * Parked without a list: what the client stores when the function has returned comes with a
 * doorbell bit, which the engine looks at when the stream has parked.
 */
static enum run_result await_callback(struct stream *s)
{
    s->in_callback = true;
    return RUN_WAITS;
}

/* It is that of the current task, which the npud before has begun with. */
static bool gave_callback(const struct stream *s)
{
    return head_has(s->live, s->live->callback_at) &&
           s->live->callbacks == s->live->task.callback.ordinal;
}

static void note_callback(struct stream *s)
{
    s->live->callback_report = s->live->task.callback.word;
    head_note(s->live, &s->live->callback_at);
    KILL_HERE(CALLBACK_HALF);
    s->live->callbacks = s->live->task.callback.ordinal;
    kept_order();
    KILL_HERE(CALLBACK_NOTED);
}

/* The code that a rule has for the task, which runs before it fails with that; or 0. */
static int32_t code_by_rule(const struct stream *s)
{
    uint64_t verdict = s->live->verdict;

    return head_has(s->live, s->live->rules_at) && !(verdict & VERDICT_HELD) ? (int32_t)verdict : 0;
}

/* What it has stored before execute_callback_done() holds. */
static enum run_result finish_callback(struct stream *s)
{
    const struct task *t = &s->live->task;
    uint64_t result = atomic_load_explicit(&s->ctrl->work_result, memory_order_relaxed);
    int32_t code = code_by_rule(s);

    if (!callback_word_is_work(t->callback.word))
        return RUN_RETIRED;
    if (code == 0)
        code = stream_work_code(result, t->callback.ordinal);
    if (failure_stop_has_begun(s))
        code = ACL_ERROR_RT_STREAM_ABORT;
    return code != 0 ? run_fail(s, code, 0) : RUN_RETIRED;
}

uint64_t execute_work(struct stream *s)
{
    struct task t = s->live->task;

    if (!stream_has_read(s) && !stream_read_entry(s, s->live->position, &t))
        return 0;
    /* What a graph has not begun never runs if it is dropped. */
    if (s->graph && !stream_has_begun(s))
        return 0;
    return t.op == TASK_CALLBACK && t.callback.block && callback_word_is_work(t.callback.word)
               ? t.callback.ordinal
               : 0;
}

static enum run_result run_callback(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    struct callback_word *word;

    (void)now;
    /*
     * The device was lost, and is back, when it has not returned; or npud ended before the task
     * retired.
     */
    if (stream_has_begun(s))
        return t->callback.block && !execute_callback_done(s) ? await_callback(s)
                                                              : finish_callback(s);
    if (t->callback.word >= CALLBACK_WORDS ||
        (t->callback.ordinal <= s->live->callbacks && !gave_callback(s)))
        return run_bad_entry(s, "no such thread or order");
    note_callback(s);
    if (execute_callback_done(s))
        return finish_callback(s); /* it has run already, or the client has dropped it */
    stream_publish_before(s);
    word = &s->session->page->callback_word[t->callback.word];
    atomic_store_explicit(&s->ctrl->callbacks, t->callback.ordinal, memory_order_release);
    KILL_HERE(CALLBACK_GIVEN);
    if (!(t->flags & TASK_CALLBACK_TOLD) && callback_word_post(word))
        waker_wake(&word->seq);
    return t->callback.block ? await_callback(s) : RUN_RETIRED;
}

/* --- passed over by a stopped stream --- */

/*
 * A record in a list is executed often: what is dropped is the latest that the client has counted.
 */
static uint64_t number_dropped(const struct stream *s, const struct event_obj *ev)
{
    return s->graph ? atomic_load_explicit(&ev->shm->records, memory_order_relaxed)
                    : s->live->task.record.number;
}

/* In a graph that has failed, it is the failure of that, which is the stream's latest. */
static int32_t why_passed(const struct stream *s)
{
    int32_t stopped = atomic_load(&s->stopped);

    return stopped != 0 ? stopped : s->live->failure.code;
}

static void pass_over_record(struct stream *s)
{
    struct event_obj *ev = task_event(s);

    if (ev && (s->live->task.flags & TASK_RECORD_WAKE))
        event_obj_record(ev, s, s->live->task.record.number, TASK_RECORD_WAKE);
    else if (ev && (s->live->task.flags & TASK_RECORD_LEVEL))
        event_obj_drop(ev, number_dropped(s, ev), why_passed(s));
}

/*
 * Another process must not take for done what was not: the record fails, as it does when its
 * process dies.
 */
static void pass_over_ipc_record(struct stream *s)
{
    struct ipc_open *open = task_ipc_event(s);

    if (open)
        ipc_record_fail(open, s->live->task.ipc.number);
}

/* The wait that the record would have ended fails, too. */
static void pass_over_notify_record(struct stream *s)
{
    notify_drop_task(s, s->graph ? NOTIFY_IN_GRAPH : s->live->position, &s->live->task,
                     s->attach->device->index);
}

/* --- failing on purpose --- */

/*
 * The record takes no timestamp. It counts as passed all the same, as the position of a failed task
 * does: streams that wait for it go on.
 */
static void fail_record(struct stream *s)
{
    struct event_obj *ev = task_event(s);

    if (s->live->task.flags & (TASK_RECORD_LEVEL | TASK_RECORD_WAKE))
        stream_publish_before(s);
    if (ev)
        event_obj_record(ev, s, s->live->task.record.number,
                         s->live->task.flags & ~TASK_RECORD_TIME);
}

static void fail_ipc_record(struct stream *s)
{
    stream_publish_before(s);
    pass_over_ipc_record(s);
}

/*
 * The program's function runs all the same, once: but the stream does not wait for it. Nor does it
 * for work, if the device is lost; by a rule that only fails it, no work but waits comes here.
 */
static void fail_callback(struct stream *s)
{
    /* In a graph the next one has its place: it never runs. */
    if (!stream_has_begun(s) && !s->graph)
        run_callback(s, 0);
    s->in_callback = false;
}

static void fail_notify_record(struct stream *s)
{
    stream_publish_before(s);
    pass_over_notify_record(s);
}

/* Let go already, and failed before it went on: the record is for the next one. */
static void fail_notify_wait(struct stream *s)
{
    if (notify_has_taken(s))
        notify_give_back(s);
}

/* --- the rows --- */

static enum run_result run_unknown(struct stream *s, uint64_t now)
{
    (void)now;
    return run_bad_entry(s, "unknown op");
}

static_assert(sizeof(struct task_row) == 128, "a row is found by a shift, and has two cache lines");

/* Behind the last op: the row of all that are unknown. */
static const struct task_row rows[TASK_OPS + 1] = {
    [TASK_NOP] = {run_nop, .brief = true},
    [TASK_RECORD] = {run_record, .fail = fail_record, .pass_over = pass_over_record,
                     .completes = true, .only_with = TASK_RECORD_LEVEL | TASK_RECORD_WAKE,
                     .number = TASK_WORD(record.number), .brief = true},
    [TASK_RESET] = {run_reset, .brief = true},
    [TASK_WAIT_LEVEL] = {run_wait_level, .waits_for = WAITS_FOR_LEVEL,
                         .timeout = TASK_WORD(wait.timeout_ns), .target = TASK_WORD(wait.target),
                         .event_wait = true},
    [TASK_WAIT_POS] = {run_wait_pos, .waits_for = WAITS_FOR_POSITION,
                       .timeout = TASK_WORD(wait.timeout_ns), .target = TASK_WORD(wait.target),
                       .event_wait = true},
    [TASK_IPC_RECORD] = {run_ipc_record, .fail = fail_ipc_record, .pass_over = pass_over_ipc_record,
                         .completes = true, .number = TASK_WORD(ipc.number), .brief = true},
    [TASK_IPC_WAIT] = {run_ipc_wait, .waits_for = WAITS_FOR_RECORD,
                       .timeout = TASK_WORD(ipc.timeout_ns), .target = TASK_WORD(ipc.number),
                       .event_wait = true},
    [TASK_COPY] = {work_run_copy, .pass_over = work_pass_over, .tell = value_tell,
                   .give_up = work_give_up, .drop = work_drop, .restore = work_restore_copy,
                   .writes = TASK_WORD(copy.dst_offset), .size = TASK_WORD(copy.size)},
    [TASK_SET] = {work_run_set, .pass_over = work_pass_over, .tell = value_tell,
                  .give_up = work_give_up, .drop = work_drop, .restore = work_restore_set,
                  .writes = TASK_WORD(set.offset), .size = TASK_WORD(set.size)},
    [TASK_DELAY] = {work_run_delay},
    [TASK_CALLBACK] = {run_callback, .fail = fail_callback, .brief = true, .wakes_thread = true},
    [TASK_NOTIFY_RECORD] = {notify_run_record, .fail = fail_notify_record,
                            .pass_over = pass_over_notify_record, .completes = true, .brief = true},
    [TASK_NOTIFY_WAIT] = {notify_run_wait, .fail = fail_notify_wait, .rejoin = notify_rejoin_wait,
                          .waits_for = WAITS_FOR_NOTIFY, .timeout = TASK_WORD(notify.timeout_ns)},
    [TASK_COUNT_RECORD] = {notify_run_count_record, .tell = notify_count_tell,
                           .fail = fail_notify_record, .pass_over = pass_over_notify_record,
                           .give_up = notify_count_give_up, .drop = notify_count_drop,
                           .rejoin = notify_rejoin_count_record, .completes = true, .brief = true},
    [TASK_COUNT_WAIT] = {notify_run_count_wait, .tell = notify_count_tell,
                         .give_up = notify_count_give_up, .drop = notify_count_drop,
                         .rejoin = notify_rejoin_count_wait, .waits_for = WAITS_FOR_NOTIFY,
                         .timeout = TASK_WORD(notify.timeout_ns)},
    [TASK_VALUE_WRITE] = {value_run_write, .pass_over = work_pass_over, .tell = value_tell,
                          .give_up = work_give_up, .drop = work_drop,
                          .restore = work_restore_value_write, .writes = TASK_WORD(value.offset)},
    [TASK_VALUE_WAIT] = {value_run_wait, .give_up = value_give_up_wait, .drop = value_drop_wait,
                         .rejoin = value_rejoin_wait, .waits_for = WAITS_FOR_VALUE,
                         .target = TASK_WORD(value.offset)},
    [TASK_REDUCE] = {work_run_reduce, .pass_over = work_pass_over, .tell = value_tell,
                     .give_up = work_give_up, .drop = work_drop, .restore = work_restore_reduce,
                     .writes = TASK_WORD(reduce.dst_offset), .size = TASK_WORD(reduce.size)},
    [TASK_GRAPH] = {graph_run, .fail = graph_fail, .pass_over = graph_fail,
                    .restore = graph_restore},
    [TASK_JUMP] = {graph_run_jump, .give_up = work_give_up, .drop = work_drop, .brief = true},
    [TASK_LAUNCH] = {work_run_launch, .pass_over = work_pass_over, .tell = value_tell,
                     .give_up = work_give_up, .drop = work_drop, .restore = work_restore_copy},
    [TASK_OPS] = {run_unknown},
};

const struct task_row *task_row(unsigned op)
{
    return &rows[op < TASK_OPS ? op : TASK_OPS];
}

/* A task that has failed is over when the client was told. */
static enum run_result tell_failure(struct stream *s, enum run_result r)
{
    if ((r == RUN_RETIRED || r == RUN_WORKED) && stream_has_failed(s) && !failure_tell(s))
        return RUN_WAITS;
    return r;
}

/* Not inlined: quick tasks, which do not go on, would pay for its registers. */
__attribute__((noinline)) static bool tell_changes(struct stream *s)
{
    const struct task_row *row = task_row(s->live->task.op);

    return !row->tell || row->tell(s);
}

enum run_result execute_task(struct stream *s, uint64_t now)
{
    enum run_result r = RUN_RETIRED;

    if (atomic_load_explicit(&s->stopped, memory_order_relaxed) != 0 ||
        __builtin_expect(s->graph && s->graph->passes, 0))
        return failure_pass_over(s);
    if (!stream_has_failed(s)) { /* else it has failed before, and there was no room to tell */
        if (stream_has_begun(s) && !tell_changes(s))
            return RUN_AGAIN;
        r = task_row(s->live->task.op)->run(s, now);
    }
    stream_begin_task(s);
    return tell_failure(s, r);
}

enum run_result execute_fail(struct stream *s, int32_t code)
{
    const struct task_row *row = task_row(s->live->task.op);

    if (row->fail)
        row->fail(s);
    /* An administrator's rule fails it, once: not in steps. */
    while (row->give_up && !row->give_up(s))
        ;
    stream_fail(s, code, 0);
    stream_begin_task(s);
    return tell_failure(s, RUN_RETIRED);
}

void execute_abandon(struct stream *s)
{
    const struct task_row *row = task_row(s->live->task.op);

    if (stream_has_read(s) && !stream_has_begun(s) && row->fail)
        row->fail(s);
}

void engine_drop_task(struct stream *s)
{
    const struct task_row *row = task_row(s->live->task.op);

    if (row->drop)
        row->drop(s);
    engine_leave_work(s); /* what was read last may not be what its work is of */
}

enum run_result execute_hold(struct stream *s, struct waitlist *list)
{
    s->live->outcome_at = 0;
    kept_order();
    run_join(s, list, 0);
    return RUN_WAITS;
}
