#include "daemon/engine/failure.h"

#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/engine/execute.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/work.h"
#include "proto/shm/task.h"

/* --- what stops --- */

/*
 * Nothing that s has not done will be done: tell the sleepers in its process, and the streams that
 * wait for it. Then it passes over what is queued.
 */
static void stop_stream(struct stream *s, int32_t code, int32_t pid)
{
    /* Sleepers arm wake_at, and then look at stopped. */
    if (atomic_exchange(&s->ctrl->wake_at, STREAM_WAKE_NONE) != STREAM_WAKE_NONE) {
        atomic_fetch_add_explicit(&s->ctrl->wake_seq, 1, memory_order_release);
        waker_wake(&s->ctrl->wake_seq);
    }
    waitlist_fire(&s->passed, 0, UINT64_MAX, code, pid);
    if (s->run != RUN_PARKED && s->run != RUN_STUCK)
        return;
    engine_forget(s->attach->device->engine, s);
    s->live->failure_at = 0;
    s->run = RUN_PARKED;
    engine_unpark(s);
}

static void mark_stopped(struct stream *s, const struct failure *f)
{
    atomic_store(&s->stopped, f->code);
    atomic_store(&s->ctrl->stopped, stream_error_make(f->code, f->pid));
    KILL_HERE(STREAM_STOPS);
}

/*
 * A client that learns of it from the stream that failed must find all the others stopped, too:
 * that one is marked last.
 */
static void stop_context(struct context *c, struct stream *failed, const struct failure *f)
{
    struct stream *s;

    atomic_store(c->end, stream_error_make(f->code, f->pid));
    KILL_HERE(CONTEXT_STOPS);
    DL_FOREACH2 (c->streams, s, context_next)
        if (s != failed)
            mark_stopped(s, f);
    mark_stopped(failed, f);
    DL_FOREACH2 (c->streams, s, context_next)
        stop_stream(s, f->code, f->pid);
}

enum run_result failure_pass_over(struct stream *s)
{
    const struct task_row *row = task_row(s->live->task.op);

    if (!stream_has_begun(s) && row->pass_over)
        row->pass_over(s);
    /* It may have begun; and there may be thousands of waiters that it has to tell. */
    stream_begin_task(s);
    return !row->give_up || row->give_up(s) ? RUN_RETIRED : RUN_AGAIN;
}

/* --- exceptions --- */

/* How a stream finished, or what was asked for: no exceptions, and no reason to stop. */
static bool is_remark(int32_t code)
{
    switch (code) {
    case ACL_ERROR_RT_END_OF_SEQUENCE:
    case ACL_ERROR_RT_MODEL_ABORT_NORMAL:
    case ACL_ERROR_RT_STREAM_ABORT:
    case ACL_ERROR_RT_DEVICE_TASK_ABORT:
        return true;
    default:
        return false;
    }
}

static bool is_exception(const struct task *t, int32_t code)
{
    if (task_row(t->op)->event_wait && code == ACL_ERROR_RT_TASK_TIMEOUT)
        return false;
    return !is_remark(code);
}

static struct exception_ring *ring_of(const struct attach *a)
{
    return &a->session->page->exceptions[a->device->index];
}

static uint64_t head_of(const struct attach *a)
{
    return atomic_load_explicit(&a->live->exceptions, memory_order_relaxed);
}

static int32_t lost_of(const struct attach *a)
{
    return (int32_t)atomic_load_explicit(&a->live->lost, memory_order_relaxed);
}

/* It is to be told. Together with its number: so no loss is told twice, and none never. */
static void set_lost(struct attach *a, int32_t code, uint64_t loss)
{
    struct kept_words words;

    kept_words_begin(&words, a->device->index);
    kept_words_set(&words, &a->live->lost, (uint32_t)code);
    kept_words_set(&words, &a->live->loss, loss);
    kept_words_commit(&words);
}

/* The entry at the head is in the ring: the client may see it now. */
static void publish_exception(struct attach *a)
{
    struct session_page *page = a->session->page;

    exception_publish(ring_of(a), head_of(a));
    atomic_fetch_add_explicit(&page->exception_seq, 1, memory_order_release);
    waker_wake(&page->exception_seq);
}

/*
 * Put the entry in the ring, if the client wants it; has_room(). What it is of changes together
 * with the head: words, which this commits.
 */
static void post_exception(struct attach *a, const struct exception *e, struct kept_words *words)
{
    struct exception_ring *r = ring_of(a);

    /* A client that wants it only since this moment has not told npud what it missed. */
    if (!atomic_load_explicit(&r->wanted, memory_order_relaxed) ||
        exception_room(r, head_of(a)) == 0) {
        kept_words_commit(words);
        return;
    }
    exception_put(r, head_of(a), e);
    kept_words_set(words, &a->live->exceptions, head_of(a) + 1);
    kept_words_commit(words);
    KILL_HERE(FAILURE_COUNTED);
    publish_exception(a);
}

/* For an entry, if it is wanted. Without room the client is asked to say when there is some. */
static bool has_room(struct attach *a)
{
    struct exception_ring *r = ring_of(a);

    if (!atomic_load_explicit(&r->wanted, memory_order_relaxed) ||
        exception_room(r, head_of(a)) > 0)
        return true;
    /* Dekker with exception_take(): full, then tail; there tail, then full. */
    atomic_store(&r->full, 1);
    return exception_room(r, head_of(a)) > 0;
}

static void ask_no_more(struct attach *a)
{
    if (!a->stuck && lost_of(a) == 0)
        atomic_store_explicit(&ring_of(a)->full, 0, memory_order_relaxed);
}

static uint64_t next_error(const struct stream *s)
{
    return atomic_load_explicit(&s->live->errors, memory_order_relaxed) + 1;
}

/*
 * In the control block. again: the npud before has begun with it; if the number is there, it has
 * stored it, and the client may have taken it.
 */
static void store_error(struct stream *s, int32_t code, int32_t pid, bool again)
{
    uint64_t number = atomic_load_explicit(&s->live->errors, memory_order_relaxed);

    if (!again || !stream_error_has_number(atomic_load(&s->ctrl->error), number))
        atomic_store_explicit(&s->ctrl->error, stream_error_numbered(code, pid, number),
                              memory_order_release);
    KILL_HERE(FAILURE_STORED);
}

/* What counts the failure. */
static void set_counted(struct stream *s, struct kept_words *words)
{
    struct stream_kept *k = s->live;

    kept_words_begin(words, s->attach->device->index);
    kept_words_set(words, &k->told_at, head_mark(k));
    kept_words_set(words, &k->failures,
                   atomic_load_explicit(&k->failures, memory_order_relaxed) + 1);
    kept_words_set(words, &k->errors, next_error(s));
    kept_words_set(words, &k->failed_task, (uint64_t)k->task.thread << 32 | stream_task_id(s));
    kept_words_set(words, &k->failed_code, (uint32_t)k->failure.code);
}

/* Count the failure, and tell the exception, both or none. False: no room. */
static bool tell_exception(struct stream *s)
{
    struct exception e = {.task = stream_task_id(s),
                          .stream = (uint32_t)stream_id(s),
                          .thread = s->live->task.thread,
                          .code = s->live->failure.code};
    struct kept_words words;

    if (!is_exception(&s->live->task, e.code)) {
        set_counted(s, &words);
        kept_words_commit(&words);
        return true;
    }
    if (!has_room(s->attach)) {
        s->run = RUN_STUCK;
        return false;
    }
    set_counted(s, &words);
    post_exception(s->attach, &e, &words);
    ask_no_more(s->attach);
    return true;
}

void failure_wait(struct stream *s)
{
    DL_APPEND(s->attach->stuck, s);
}

void failure_forget(struct stream *s)
{
    struct attach *a = s->attach;

    if (s->run != RUN_STUCK)
        return;
    DL_DELETE(a->stuck, s);
    s->run = RUN_PARKED;
    ask_no_more(a);
}

/* Once per loss: one that comes before the last one was told of is the same to the client. */
static void tell_lost(struct attach *a)
{
    struct exception e = {EXCEPTION_NONE, EXCEPTION_NONE, EXCEPTION_NONE, lost_of(a)};
    struct kept_words words;

    if (!has_room(a))
        return;
    kept_words_begin(&words, a->device->index);
    kept_words_set(&words, &a->live->lost, 0);
    post_exception(a, &e, &words);
    ask_no_more(a);
}

void failure_device_lost(struct attach *a)
{
    uint64_t loss = atomic_load_explicit(&a->device->loss, memory_order_relaxed);

    if (atomic_load_explicit(&a->live->loss, memory_order_relaxed) != loss)
        set_lost(a, a->device->lost, loss);
    if (lost_of(a) != 0)
        tell_lost(a);
}

bool failure_can_retry(const struct attach *a)
{
    return (a->stuck || lost_of(a) != 0) && exception_room(ring_of(a), head_of(a)) > 0;
}

bool failure_retry(struct attach *a)
{
    uint64_t room = exception_room(ring_of(a), head_of(a));
    bool found = false;

    if (room > 0 && lost_of(a) != 0) {
        tell_lost(a);
        room--;
    }
    for (struct stream *s; room > 0 && (s = a->stuck); room--) {
        failure_forget(s);
        engine_unpark(s);
        found = true;
    }
    return found;
}

bool failure_tell(struct stream *s)
{
    struct failure f = s->live->failure;
    bool again = head_has(s->live, s->live->told_at);

    if (!again && !tell_exception(s))
        return false;
    KILL_HERE(FAILURE_TOLD);
    if (!s->context->stop || is_remark(f.code)) {
        store_error(s, f.code, f.pid, again);
        return true;
    }
    /* What was done before it is done; it is not, nor is anything behind it. */
    stream_publish_before(s);
    stop_context(s->context, s, &f);
    return true;
}

void failure_restore(struct attach *a)
{
    publish_exception(a);
    if (lost_of(a) != 0)
        tell_lost(a);
    else if (atomic_load_explicit(&a->device->lost, memory_order_relaxed) != 0)
        failure_device_lost(a);
}

/* --- ending a task --- */

/*
 * What a stream has not begun is stopped only if it would stay there: records and the like are
 * never "being executed".
 */
static bool has_task_to_stop(struct stream *s)
{
    struct task task;

    return stream_has_read(s) ||
           (stream_read_entry(s, s->live->position, &task) && !task_row(task.op)->brief);
}

static void stop_task(struct stream *s, bool again)
{
    struct stream_kept *k = s->live;
    struct task graph;

    engine_forget(s->attach->device->engine, s);
    execute_abandon(s);
    if (stream_kept_in_graph(k) && stream_read_entry(s, k->position, &graph))
        engine_drop_graph(s, &graph, graph_at_index(k->graph_at) + 1, GRAPH_DROPS_MAX);
    if (!work_stop(s))
        engine_drop_task(s);
    store_error(s, ACL_ERROR_RT_STREAM_ABORT, 0, again);
    kept_order();
    engine_leave_graph(s);
    k->position++;
    stream_forget_task(s);
    KILL_HERE(STOP_TASK);
    stream_publish(s, k->position);
    s->run = RUN_PARKED;
    engine_unpark(s);
}

/* errors: of which failure it is told. */
static void note_stop(struct stream *s, uint64_t request, uint64_t errors)
{
    struct kept_words words;

    kept_words_begin(&words, KEPT_CONTROL);
    kept_words_set(&words, &s->live->stop_at, head_mark(s->live));
    kept_words_set(&words, &s->live->last_request, request);
    kept_words_set(&words, &s->live->errors, errors);
    kept_words_commit(&words);
}

/* It is not over before the client says so: until then nothing behind it may begin. */
static void stop_work(struct stream *s, uint64_t request)
{
    note_stop(s, request, atomic_load_explicit(&s->live->errors, memory_order_relaxed));
    KILL_HERE(STOP_WORK);
    if (!stream_has_read(s) || stream_has_begun(s))
        return;
    /* A rule holds it. */
    engine_forget(s->attach->device->engine, s);
    s->run = RUN_PARKED;
    engine_unpark(s);
}

bool failure_stop_has_begun(const struct stream *s)
{
    return head_has(s->live, s->live->stop_at);
}

/*
 * The npud before has begun with it, and recovery has held the stream for that. If its context has
 * stopped since, all are told that the task is not done, and it is passed over.
 */
static void stop_again(struct stream *s)
{
    if (atomic_load(&s->stopped) == 0) {
        stop_task(s, true);
    } else if (s->run == RUN_HELD) {
        s->run = RUN_PARKED;
        engine_unpark(s);
    }
}

static uint64_t stop_head(struct stream *s, uint64_t request, bool tell_work)
{
    /* The npud before has begun with it, and not answered. */
    bool again = request != 0 && s->live->last_request == request;
    uint64_t work = 0;

    if (tell_work && atomic_load(&s->stopped) == 0 && s->run != RUN_HELD &&
        (failure_stop_has_begun(s) || (!again && !stream_has_failed(s))))
        work = execute_work(s);
    if (work != 0) {
        stop_work(s, request);
    } else if (again && failure_stop_has_begun(s)) {
        stop_again(s);
    } else if (!again && atomic_load(&s->stopped) == 0 && s->run != RUN_HELD &&
               has_task_to_stop(s)) {
        note_stop(s, request, next_error(s));
        stop_task(s, false);
    }
    return work;
}

uint64_t failure_stop_task(struct stream *s, uint64_t request, uint64_t position, bool tell_work)
{
    uint64_t work = 0;

    session_lock(s->session);
    if (position == 0 || s->live->position + 1 == position)
        work = stop_head(s, request, tell_work);
    session_unlock(s->session);
    return work;
}
