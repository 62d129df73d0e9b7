/* Events in streams: record, reset and wait. */
#include "acl/acl.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/event/event.h"
#include "client/capture/capture.h"
#include "client/runtime/stream.h"
#include "client/core/npud_clock.h"

/* Process-wide limit for stream waits, in nanoseconds; 0: none. */
static _Atomic uint64_t op_wait_timeout_ns;

/* --- record --- */

static void set_record(struct event *e, struct stream_ctrl *ctrl, uint64_t position, uint64_t ns)
{
    uint64_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);
    uint64_t number = atomic_load_explicit(&e->record_number, memory_order_relaxed) + 1;

    atomic_store_explicit(&e->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&e->record_ctrl, ctrl, memory_order_relaxed);
    atomic_store_explicit(&e->record_position, position, memory_order_relaxed);
    atomic_store_explicit(&e->record_number, number, memory_order_relaxed);
    atomic_store_explicit(&e->record_ns, ns, memory_order_relaxed);
    atomic_store_explicit(&e->sequence, sequence + 2, memory_order_release);
    atomic_store_explicit(&e->shm->records, number, memory_order_relaxed);
}

/* The stream has room, and the level may be up already: this is not refused. */
static void submit_record(struct event *e, struct stream *s, uint8_t flags)
{
    struct task task = {
        .op = TASK_RECORD,
        .flags = flags,
        .object = e->remote,
        .generation = e->remote_generation,
        .record.number = atomic_load_explicit(&e->record_number, memory_order_relaxed) + 1,
    };

    stream_submit_reserved(s, &task);
    if (event_has_level(e) && !stream_captures(s))
        event_used(e, s, USE_FENCE);
}

/* Locked, and before another thread can see the record. */
static void note_recorded(const struct event *e, const struct stream *s, aclrtEvent event)
{
    uint64_t number = atomic_load_explicit(&e->record_number, memory_order_relaxed) + 1;

    if (checked_runs())
        checked_event_use(CHECK_RECORD, stream_checked_name(s), (uintptr_t)event, number);
}

/*
 * With nothing outstanding the record is complete at the call, and no engine hears of it; unless a
 * stream is parked on the level: then an engine has to let it go on.
 */
static void record_idle(struct event *e, struct stream *s)
{
    bool waking = false;

    if (event_has_level(e)) {
        event_slot_raise(e->shm);
        waking = atomic_load(&e->shm->level_waiters) != 0;
    }
    if (waking)
        submit_record(e, s, TASK_RECORD_WAKE);
    else
        stream_count_implicit(s);
    set_record(e, NULL, 0, event_has_time(e) ? npud_clock_ns() : 0);
}

static void record_queued(struct event *e, struct stream *s)
{
    if (e->kind == EVENT_EX_EXTERNAL)
        event_slot_lower(e->shm);
    /*
     * A plain position needs no task of its own, unless tasks are counted: the event is complete
     * when the stream gets there.
     */
    if (event_has_time(e) || event_has_level(e) || stream_mode(s) != DOORBELL_FREE)
        submit_record(e, s,
                      (event_has_time(e) ? TASK_RECORD_TIME : 0) |
                          (event_has_level(e) ? TASK_RECORD_LEVEL : 0));
    else
        stream_count_implicit(s);
    set_record(e, s->ctrl, s->tail, 0);
}

/* Does a stream that records take it as a task of the graph, and not as an edge? */
static bool is_task_of_graph(const struct event *e, const struct stream *s)
{
    return e->kind == EVENT_EXTERNAL || (s->model && e->kind == EVENT_SYNC);
}

/* May the event be used in a capture? Those that wait for it look at more. */
static int check_capturable(const struct event *e, const struct stream *s, const char *function)
{
    if (is_task_of_graph(e, s) ||
        (!s->model &&
         (e->kind == EVENT_EX_SYNC || e->kind == EVENT_EX_MARK || e->kind == EVENT_EX_EXTERNAL)))
        return 0;
    return error_set(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "%s: a stream that is captured takes events of aclrtCreateEventExWithFlag "
        "(but no IPC events), or with ACL_EVENT_EXTERNAL; one that is bound to a model "
        "takes the latter, and those of aclrtCreateEventWithFlag with ACL_EVENT_SYNC",
        function);
}

/* What a model that is built by hand has recorded cannot be synchronised by the event. */
static void note_by_model(struct event *e, bool by_model)
{
    atomic_store_explicit(&e->by_model, by_model, memory_order_relaxed);
}

/* A task of the graph, which touches the real event at each execution. */
static void record_external(struct event *e, struct stream *s, aclrtEvent event)
{
    submit_record(e, s, TASK_RECORD_LEVEL);
    note_by_model(e, e->kind == EVENT_SYNC);
    capture_name_node(s, NODE_RECORD, event, 0);
}

/* On a stream that records: the event is locked, or an edge of the graph. */
static int record_captured(struct event *e, struct stream *s, const char *function,
                           aclrtEvent event)
{
    int error;

    if (e->kind == EVENT_EX_MARK)
        return 0; /* as the reference has it: nothing can wait for it */
    error = capture_record_event(s, function, event, &e->capture);
    /* No query takes its latest record for complete: it is of the capture from now on. */
    if (error == 0)
        event_changed(e);
    return error;
}

/* A stream that records has another code for a wait for an event that only marks. */
static __attribute__((cold, noinline)) int refuse_use(const struct event *e, const char *function,
                                                      aclrtStream stream, enum use_of_event use,
                                                      int error)
{
    struct session *session = e->session;
    const struct stream *s;

    if (use != USE_WAIT || e->kind != EVENT_EX_MARK || !capture_runs(session))
        return error;
    s = handle_get(&session->streams, HANDLE_STREAM, stream);
    if (!s || capture_refuse_stream(s, function) == 0)
        return error;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the event was made without ACL_EVENT_SYNC: a capture cannot wait for it",
                     function);
}

/*
 * What record, reset and wait begin with: the event, right for this use, and the stream, locked and
 * with room. Room first, the event's lock after: waiting for room with it held would keep out the
 * very record that makes room.
 */
static struct event *begin_submission(const char *function, aclrtEvent event, aclrtStream stream,
                                      enum use_of_event use, struct stream **sp, int *error)
{
    struct event *e = event_find(function, event, error);

    if (!e)
        return NULL;
    *error = event_check_use(e, function, use);
    if (__builtin_expect(*error != 0, 0)) {
        *error = refuse_use(e, function, stream, use, *error);
        return NULL;
    }
    *sp = stream_lock(function, stream, error);
    if (!*sp)
        return NULL;
    *error = stream_reserve(*sp, function);
    if (*error == 0 && stream_captures(*sp))
        *error = check_capturable(e, *sp, function);
    if (*error == 0)
        return e;
    stream_unlock(*sp);
    return NULL;
}

static int record_locked(struct event *e, struct stream *s, const char *function, aclrtEvent event)
{
    if (!is_task_of_graph(e, s) && stream_captures(s))
        return record_captured(e, s, function, event);
    if (capture_runs(s->session)) {
        RETURN_IF_ERROR(capture_check_default(s, function, &e->capture));
        atomic_store_explicit(&e->capture, 0, memory_order_relaxed);
    }
    if (stream_captures(s)) {
        record_external(e, s, event);
    } else {
        note_recorded(e, s, event);
        note_by_model(e, false);
        if (stream_idle(s))
            record_idle(e, s);
        else
            record_queued(e, s);
    }
    e->record_stream = s->remote;
    return 0;
}

static int record_event(const char *function, aclrtEvent event, aclrtStream stream)
{
    int error;
    struct stream *s;
    struct event *e = begin_submission(function, event, stream, USE_RECORD, &s, &error);

    if (!e)
        return error;
    if (e->kind == EVENT_IPC) {
        error = ipc_event_record(e, s, function, event);
    } else if ((error = event_lock(e, function, event)) == 0) {
        error = record_locked(e, s, function, event);
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(event);
    return record_event(__func__, event, stream);
}

/* --- by a flag, in a capture --- */

/* Both locked. */
static int add_external(struct event *e, struct stream *s, const char *function, aclrtEvent event,
                        bool record)
{
    struct task task = {.op = record ? TASK_RECORD : TASK_WAIT_LEVEL,
                        .flags = record ? TASK_RECORD_LEVEL : 0,
                        .object = e->remote,
                        .generation = e->remote_generation};

    if (!stream_captures(s))
        return error_set(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                         "%s: the stream is not being captured: call aclmdlRICaptureBegin first",
                         function);
    RETURN_IF_ERROR(stream_check(s, function));
    if (capture_uses(s, event))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the event is used with EXTERNAL in this capture already", function);
    if (e->kind == EVENT_EX_SYNC) {
        struct record r;

        e->kind = EVENT_EX_EXTERNAL;
        event_record_locked(e, &r);
        if (r.number != 0 && point_passed(&r.point))
            event_slot_raise(e->shm);
        /* A checker takes its records and waits for those of a level from now on. */
        if (checked_runs()) {
            checked_object(CHECK_EVENT_GONE, CHECK_OBJECT_EVENT, (uintptr_t)event);
            event_note_created(e, false);
        }
    }
    stream_submit_reserved(s, &task);
    capture_name_node(s, record ? NODE_RECORD : NODE_WAIT, event, 1);
    return 0;
}

static int use_external(const char *function, aclrtEvent event, aclrtStream stream, bool record)
{
    int error;
    struct event *e = FIND_OR_RETURN(event_find, function, event);
    struct stream *s = FIND_OR_RETURN(stream_lock, function, stream);

    error = event_lock(e, function, event);
    if (error == 0) {
        error = add_external(e, s, function, event, record);
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}

/* An event keeps to the first flag that was used with it. */
static int check_flag(struct event *e, int8_t *first, const char *function, uint32_t flag)
{
    if (*first < 0)
        *first = (int8_t)flag;
    if (*first != (int8_t)flag)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the event was used with the other flag before, and keeps to that one",
                         function);
    if (flag == 0)
        return 0;
    if ((e->kind != EVENT_EX_SYNC && e->kind != EVENT_EX_EXTERNAL) || e->flags != ACL_EVENT_SYNC)
        return error_set(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%s: EXTERNAL needs an event of aclrtCreateEventExWithFlag(ACL_EVENT_SYNC)", function);
    return 0;
}

static int use_flag(const char *function, aclrtEvent event, uint32_t flag, bool record)
{
    int error;
    struct event *e = FIND_OR_RETURN(event_find, function, event);

    RETURN_IF_ERROR(event_lock(e, function, event));
    error = check_flag(e, record ? &e->record_flag : &e->wait_flag, function, flag);
    event_unlock(e);
    return error;
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;
    int error;

    REQUIRE(event);
    if (flag > ACL_EVENT_RECORD_EXTERNAL)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtRecordEventWithFlag: flag %u is not one of ACL_EVENT_RECORD_DEFAULT "
                         "(0) and ACL_EVENT_RECORD_EXTERNAL (1)",
                         flag);
    error = use_flag(__func__, event, flag, true);
    if (error == 0)
        error = flag == ACL_EVENT_RECORD_EXTERNAL ? use_external(__func__, event, stream, true)
                                                  : record_event(__func__, event, stream);
    return error;
}

/* --- reset --- */

static void reset_level(struct event *e, struct stream *s)
{
    struct task task = {.op = TASK_RESET, .object = e->remote, .generation = e->remote_generation};

    if (stream_idle(s)) { /* and does not record */
        event_slot_lower(e->shm);
        stream_count_implicit(s);
        return;
    }
    stream_submit_reserved(s, &task);
    if (stream_captures(s))
        capture_name_node(s, NODE_RESET, handle_of(HANDLE_EVENT, e), 0);
    else
        event_used(e, s, USE_FENCE);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    CALL_SCOPE;
    REQUIRE(event);
    int error;
    struct stream *s;
    struct event *e = FIND_OR_RETURN(begin_submission, __func__, event, stream, USE_RESET, &s);

    error = event_lock(e, __func__, event);
    if (error == 0) {
        if (checked_runs() && !stream_captures(s))
            checked_event_use(CHECK_RESET, stream_checked_name(s), (uintptr_t)event, 0);
        if (event_has_level(e)) {
            reset_level(e, s);
        } else if (stream_captures(s)) {
            error = capture_error_kind(__func__, "a reset of this event");
        } else {
            error = event_reset_in(e, s, __func__);
            if (error == 0)
                stream_count_implicit(s);
        }
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}

/* --- wait --- */

/* The wait is for this record. */
static void note_waits(const struct stream *s, aclrtEvent event, uint64_t number)
{
    if (checked_runs())
        checked_event_use(CHECK_WAIT, stream_checked_name(s), (uintptr_t)event, number);
}

static int wait_level(struct event *e, struct stream *s, const char *function, aclrtEvent event,
                      uint64_t timeout_ns)
{
    struct task task = {.op = TASK_WAIT_LEVEL,
                        .object = e->remote,
                        .generation = e->remote_generation,
                        .wait.timeout_ns = timeout_ns};
    struct record r;

    if (stream_captures(s)) {
        stream_submit_reserved(s, &task);
        capture_name_node(s, NODE_WAIT, event, 0);
        return 0;
    }
    event_record_locked(e, &r);
    note_waits(s, event, r.number);
    if (stream_idle(s) &&
        (atomic_load_explicit(&e->shm->level, memory_order_acquire) & EVENT_LEVEL_UP))
        return 0;
    RETURN_IF_ERROR(event_stopped(&r, function));
    task.wait.target = r.number;
    stream_submit_reserved(s, &task);
    event_used(e, s, USE_FENCE | USE_WAITS);
    return 0;
}

static int wait_record_of(struct event *e, struct stream *s, const char *function, aclrtEvent event,
                          uint64_t timeout_ns)
{
    struct task task = {.op = TASK_WAIT_POS, .wait.timeout_ns = timeout_ns};
    struct record r;
    int error;

    if (capture_runs(s->session)) {
        error = capture_wait_event(s, function, event, &e->capture);
        if (error >= 0)
            return error;
    }
    event_record_locked(e, &r);
    note_waits(s, event, r.number);
    if (e->kind == EVENT_DEFAULT && r.number == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the event was not recorded; a stream cannot wait for it yet",
                         function);
    if (stream_mode(s) == DOORBELL_FREE && (point_passed(&r.point) || r.point.ctrl == s->ctrl))
        return 0;
    RETURN_IF_ERROR(event_stopped(&r, function));
    task.object = e->record_stream;
    /* What was discarded before the call counts as done, also where every wait is a task. */
    task.wait.target = point_passed(&r.point) ? 0 : r.point.position;
    stream_submit_reserved(s, &task);
    /* The task names the other stream, not the event; only a default event has a wait status. */
    if (e->kind == EVENT_DEFAULT)
        event_used(e, s, USE_WAITS);
    return 0;
}

/* --- by a graph --- */

static struct event *lock_named(aclrtEvent event, const struct stream *s)
{
    struct event *e = handle_get(&s->session->events, HANDLE_EVENT, event);

    return e && event_lock(e, "aclmdlRIExecuteAsync", event) == 0 ? e : NULL;
}

void event_note_by_graph(aclrtEvent event, struct stream *s, enum check_kind kind, uint64_t before)
{
    struct event *e = lock_named(event, s);
    struct record r;
    uint64_t number = 0;

    if (!e)
        return;
    event_record_locked(e, &r);
    if (kind == CHECK_RECORD)
        number = atomic_load_explicit(&e->record_number, memory_order_relaxed) + 1 + before;
    else if (kind == CHECK_WAIT)
        number = r.number;
    checked_event_use(kind, stream_checked_name(s), (uintptr_t)event, number);
    event_unlock(e);
}

void event_recorded_by_graph(aclrtEvent event, struct stream *s)
{
    struct event *e = lock_named(event, s);

    if (!e)
        return;
    set_record(e, s->ctrl, s->tail, 0);
    note_by_model(e, e->kind == EVENT_SYNC);
    e->record_stream = s->remote;
    event_used(e, s, USE_FENCE);
    event_unlock(e);
}

void event_lower_for_graph(aclrtEvent event, struct stream *s)
{
    struct event *e = lock_named(event, s);

    if (!e)
        return;
    if (e->kind == EVENT_EX_EXTERNAL)
        event_slot_lower(e->shm);
    event_unlock(e);
}

void event_used_by_graph(aclrtEvent event, struct stream *s, bool waits)
{
    struct event *e = lock_named(event, s);

    if (!e)
        return;
    event_used(e, s, USE_FENCE | (waits ? USE_WAITS : 0));
    event_unlock(e);
}

static int stream_wait(const char *function, aclrtStream stream, aclrtEvent event,
                       uint64_t timeout_ns)
{
    int error;
    struct stream *s;
    struct event *e = begin_submission(function, event, stream, USE_WAIT, &s, &error);

    if (!e)
        return error;
    if (e->kind == EVENT_IPC) {
        error = ipc_event_wait(e, s, function, event, timeout_ns);
    } else if ((error = event_lock(e, function, event)) == 0) {
        error = event_has_level(e) && e->kind != EVENT_EX_EXTERNAL
                    ? wait_level(e, s, function, event, timeout_ns)
                    : wait_record_of(e, s, function, event, timeout_ns);
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}

/* With the time limit of aclrtSetOpWaitTimeout. */
static int stream_wait_by_default(const char *function, aclrtStream stream, aclrtEvent event)
{
    return stream_wait(function, stream, event,
                       atomic_load_explicit(&op_wait_timeout_ns, memory_order_relaxed));
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    CALL_SCOPE;

    REQUIRE(event);
    return stream_wait_by_default(__func__, stream, event);
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout)
{
    CALL_SCOPE;

    if (timeout < 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtStreamWaitEventWithTimeout: timeout is %d s, must not be negative",
                         timeout);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, event);
    return stream_wait(__func__, stream, event, (uint64_t)timeout * NSEC_PER_SEC);
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                      uint32_t flag)
{
    CALL_SCOPE;

    REQUIRE(event);
    if (flag > ACL_EVENT_WAIT_EXTERNAL || (flag == ACL_EVENT_WAIT_EXTERNAL && timeout != 0))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtStreamWaitEventWithFlag: flag %u is unknown, or takes no timeout",
                         flag);
    RETURN_IF_ERROR(use_flag(__func__, event, flag, false));
    if (flag == ACL_EVENT_WAIT_EXTERNAL)
        return use_external(__func__, event, stream, false);
    if (timeout == UINT32_MAX)
        return stream_wait_by_default(__func__, stream, event);
    return stream_wait(__func__, stream, event, (uint64_t)timeout * NSEC_PER_SEC);
}

static void forget_op_timeout(void)
{
    atomic_store_explicit(&op_wait_timeout_ns, 0, memory_order_relaxed);
}

const struct part event_submit_part = {.fork_child = forget_op_timeout};

aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(process_enter());
    atomic_store_explicit(&op_wait_timeout_ns, (uint64_t)timeout * NSEC_PER_SEC,
                          memory_order_relaxed);
    return 0;
}
