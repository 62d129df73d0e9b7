#include "client/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/context.h"
#include "client/error.h"
#include "client/handle.h"
#include "client/stream.h"
#include "client/wait.h"
#include "proto/clock.h"
#include "proto/packet.h"

#define UNSUPPORTED ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define REFUSED     ACL_ERROR_RT_PARAM_INVALID

/* Which function accepts which kind: section 8 of the reference. 0: accepted. */
enum use_of_event {
    USE_RECORD,
    USE_RESET,
    USE_QUERY,
    USE_QUERY_STATUS,
    USE_QUERY_WAIT,
    USE_SYNCHRONIZE,
    USE_WAIT,
    USE_TIMING,
    USE_COUNT
};

static const struct {
    const char *name;
    int error[USE_COUNT];
} kinds[EVENT_KINDS] = {
    /* in the order of enum use_of_event: record, reset, query, status, wait status, synchronise,
     * stream wait, timing */
    [EVENT_DEFAULT] = {"a default event", {0, 0, 0, 0, 0, 0, 0, 0}},
    [EVENT_SYNC] = {"an ACL_EVENT_SYNC event", {0, 0, 0, 0, 0, 0, 0, 0}},
    [EVENT_MARK] = {"an event without ACL_EVENT_SYNC",
                    {0, UNSUPPORTED, 0, 0, 0, 0, UNSUPPORTED, 0}},
    [EVENT_EXTERNAL] = {"an ACL_EVENT_EXTERNAL event",
                        {0, 0, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED}},
    [EVENT_DEVICE] = {"an ACL_EVENT_DEVICE_USE_ONLY event",
                      {REFUSED, REFUSED, 0, 0, 0, 0, REFUSED, 0}},
    [EVENT_EX_SYNC] = {"an event of aclrtCreateEventExWithFlag",
                       {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, 0, 0}},
    [EVENT_EX_MARK] = {"an event of aclrtCreateEventExWithFlag without ACL_EVENT_SYNC",
                       {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, UNSUPPORTED, 0}},
    [EVENT_IPC] = {"an IPC event",
                   {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, 0, UNSUPPORTED}},
};

static int check_use(struct event *e, const char *function, enum use_of_event use)
{
    int error = kinds[e->kind].error[use];

    if (__builtin_expect(error == 0, 1))
        return 0;
    return error_set(error, "%s: not possible with %s", function, kinds[e->kind].name);
}

/* Process-wide limit for stream waits, in nanoseconds; 0: none. */
static _Atomic uint64_t op_wait_timeout_ns;

/* --- finding --- */

static int bad_event(const char *function)
{
    return error_set(ACL_ERROR_RT_INVALID_HANDLE,
                     "%s: this is no event of this process, or it was destroyed", function);
}

static struct event *find_slow(const char *function, int *error)
{
    *error = process_enter();
    if (*error == 0)
        *error = bad_event(function);
    return NULL;
}

struct event *event_find(const char *function, void *handle, int *error)
{
    struct session *s = session_peek();
    struct event *e = s ? handle_get(&s->events, HANDLE_EVENT, handle) : NULL;

    *error = 0;
    if (__builtin_expect(e != NULL, 1))
        return e;
    return find_slow(function, error);
}

int event_lock(struct event *e, const char *function, void *handle)
{
    pthread_mutex_lock(&e->lock);
    if (slot_live(e) && handle_of(HANDLE_EVENT, e) == handle)
        return 0;
    pthread_mutex_unlock(&e->lock);
    return bad_event(function);
}

/* --- life --- */

struct event *event_new(struct context *c, const char *function, enum event_kind kind,
                        uint32_t flags, int *error)
{
    struct event *e;

    pthread_mutex_lock(&c->session->lock);
    e = slots_take(&c->session->events);
    pthread_mutex_unlock(&c->session->lock);
    if (!e) {
        *error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: too many events in this process",
                           function);
        return NULL;
    }
    e->session = c->session;
    e->context = c;
    e->kind = kind;
    e->flags = flags;
    e->device = c->device;
    e->shm = NULL;
    e->n_uses = 0;
    atomic_store_explicit(&e->reset_number, 0, memory_order_relaxed);
    e->record_flag = e->wait_flag = -1;
    atomic_store_explicit(&e->record_ctrl, NULL, memory_order_relaxed);
    atomic_store_explicit(&e->record_number, 0, memory_order_relaxed);
    atomic_store_explicit(&e->record_ns, 0, memory_order_relaxed);
    return e;
}

void event_abandon(struct event *e)
{
    struct session *s = e->session;

    pthread_mutex_lock(&s->lock);
    slots_put(&s->events, e);
    pthread_mutex_unlock(&s->lock);
}

/* Caller holds session->lock, which orders the mapping of a new segment before the use of its slots
 * by other threads. */
static int create_remote(struct event *e, const char *function)
{
    struct session *s = e->session;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__CreateEvent create = NPUD__CREATE_EVENT__INIT;
    Npud__Reply *reply = NULL;
    void **segment;
    int error, fd = -1;

    create.flags = e->flags;
    create.device = e->device;
    request.create_event = &create;
    request.body_case = NPUD__REQUEST__BODY_CREATE_EVENT;
    error = session_request(s, function, &request, &reply, &fd);
    if (error != 0)
        return error;
    e->remote = reply->create_event->slot;
    e->remote_generation = reply->create_event->generation;
    session_reply_free(reply);
    segment = &s->event_segments[e->remote / ARENA_EVENTS];
    if (fd >= 0)
        error = session_map_segment(s, function, fd, arena_event_segment_size(), segment);
    if (error == 0)
        e->shm = arena_event(*segment, e->remote);
    return error;
}

static int create(const char *function, aclrtEvent *event, enum event_kind kind, uint32_t flags)
{
    int error;
    struct context *c = context_get(function, &error);
    struct event *e;

    if (!c)
        return error;
    e = event_new(c, function, kind, flags, &error);
    if (!e)
        return error;
    pthread_mutex_lock(&c->session->lock);
    error = create_remote(e, function);
    pthread_mutex_unlock(&c->session->lock);
    if (error != 0) {
        event_abandon(e);
        return error;
    }
    slots_publish(e);
    *event = handle_of(HANDLE_EVENT, e);
    return 0;
}

#define DEFAULT_FLAGS 0x0eu /* what the vendor's default event amounts to */
#define ORDINARY      (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | 0x04u)

aclError aclrtCreateEvent(aclrtEvent *event)
{
    REQUIRE(event);
    return create(__func__, event, EVENT_DEFAULT, DEFAULT_FLAGS);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    enum event_kind kind;

    REQUIRE(event);
    if (flag == ACL_EVENT_DEVICE_USE_ONLY)
        kind = EVENT_DEVICE;
    else if (flag == ACL_EVENT_EXTERNAL)
        kind = EVENT_EXTERNAL;
    else if (flag != 0 && (flag & ~ORDINARY) == 0)
        kind = flag & ACL_EVENT_SYNC ? EVENT_SYNC : EVENT_MARK;
    else
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateEventWithFlag: flag 0x%x is not allowed here%s",
            flag, flag & ACL_EVENT_IPC ? "; use aclrtCreateEventExWithFlag for ACL_EVENT_IPC" : "");
    return create(__func__, event, kind, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    REQUIRE(event);
    if (flag == ACL_EVENT_IPC)
        return ipc_create(__func__, event);
    if (flag == 0 || (flag & ~ORDINARY) != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtCreateEventExWithFlag: flag 0x%x is not allowed here%s", flag,
                         flag & ACL_EVENT_IPC ? "; ACL_EVENT_IPC goes with no other flag" : "");
    return create(__func__, event, flag & ACL_EVENT_SYNC ? EVENT_EX_SYNC : EVENT_EX_MARK, flag);
}

void event_used(struct event *e, struct stream *s, unsigned how)
{
    struct use use = {
        .point = {.ctrl = s->ctrl, .position = s->tail}, .stream = s->remote, .how = how};
    struct use *grown;

    for (uint32_t i = 0; i < e->n_uses; i++)
        if ((e->uses[i].point.ctrl == s->ctrl && e->uses[i].how == how) ||
            point_passed(&e->uses[i].point)) {
            e->uses[i] = use;
            return;
        }
    if (e->n_uses == e->uses_size) {
        grown = reallocarray(e->uses, e->uses_size + 4, sizeof(use));
        if (!grown)
            return; /* npud looks objects up by generation: this task may lose its effect, no more */
        e->uses = grown;
        e->uses_size += 4;
    }
    e->uses[e->n_uses++] = use;
}

Npud__Fence **event_fences(struct event *e, size_t *n, protobuf_c_boolean *all)
{
    Npud__Fence **list, *fence;

    *n = 0;
    *all = false;
    list = malloc(e->n_uses * (sizeof(Npud__Fence *) + sizeof(Npud__Fence)) + 1);
    fence = list ? (Npud__Fence *)(list + e->n_uses) : NULL;
    for (uint32_t i = 0; i < e->n_uses; i++) {
        if (!(e->uses[i].how & USE_FENCE) || point_passed(&e->uses[i].point))
            continue;
        if (!list || *n == FENCES_MAX) {
            *n = 0;
            *all = true;
            break;
        }
        fence[*n] = (Npud__Fence)NPUD__FENCE__INIT;
        fence[*n].stream = e->uses[i].stream;
        fence[*n].position = e->uses[i].point.position;
        list[*n] = &fence[*n];
        ++*n;
    }
    return list;
}

void event_fences_free(Npud__Fence **fences)
{
    free(fences);
}

static int destroy_remote(struct event *e, const char *function)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__DestroyEvent destroy = NPUD__DESTROY_EVENT__INIT;
    int error;

    destroy.slot = e->remote;
    destroy.fences = event_fences(e, &destroy.n_fences, &destroy.all_streams);
    request.destroy_event = &destroy;
    request.body_case = NPUD__REQUEST__BODY_DESTROY_EVENT;
    error = session_command(e->session, function, &request);
    event_fences_free(destroy.fences);
    return error;
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    int error;
    struct event *e;

    REQUIRE(event);
    e = event_find(__func__, event, &error);
    if (!e)
        return error;
    error = event_lock(e, __func__, event);
    if (error != 0)
        return error;
    slots_unpublish(e);
    error = e->kind == EVENT_IPC ? ipc_close(e, __func__) : destroy_remote(e, __func__);
    event_unlock(e);
    event_abandon(e);
    return error;
}

void events_forget_all(struct session *s)
{
    for (uint32_t i = 0; i < s->events.end; i++) {
        struct event *e = slots_at(&s->events, i);

        ipc_unmap(e);
        free(e->uses);
    }
}

/* --- record --- */

static void set_record(struct event *e, struct stream_ctrl *ctrl, uint64_t position, uint64_t ns)
{
    uint32_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);

    atomic_store_explicit(&e->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&e->record_ctrl, ctrl, memory_order_relaxed);
    atomic_store_explicit(&e->record_position, position, memory_order_relaxed);
    atomic_store_explicit(&e->record_number,
                          atomic_load_explicit(&e->record_number, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&e->record_ns, ns, memory_order_relaxed);
    atomic_store_explicit(&e->sequence, sequence + 2, memory_order_release);
}

static bool has_level(const struct event *e)
{
    return e->kind == EVENT_SYNC || e->kind == EVENT_EXTERNAL;
}

static bool has_time(const struct event *e)
{
    return e->flags & ACL_EVENT_TIME_LINE;
}

static int submit_record(struct event *e, struct stream *s, const char *function, uint8_t flags)
{
    struct task task = {
        .op = TASK_RECORD,
        .flags = flags,
        .object = e->remote,
        .generation = e->remote_generation,
        .record.number = atomic_load_explicit(&e->record_number, memory_order_relaxed) + 1,
    };
    int error = stream_submit(s, function, &task);

    if (error == 0 && has_level(e))
        event_used(e, s, USE_FENCE);
    return error;
}

/*
 * With nothing outstanding the record is complete at the call, and no engine hears of it; unless a stream is parked on the level:
 * then an engine has to let it go on.
 */
static int record_idle(struct event *e, struct stream *s, const char *function)
{
    int error = 0;

    if (has_level(e)) {
        event_slot_raise(e->shm);
        if (atomic_load(&e->shm->level_waiters) != 0)
            error = submit_record(e, s, function, TASK_RECORD_WAKE);
    }
    if (error == 0)
        set_record(e, NULL, 0, has_time(e) ? clock_ns() : 0);
    return error;
}

static int record_queued(struct event *e, struct stream *s, const char *function)
{
    int error = 0;

    /* A plain position needs no task of its own: the event is complete when the stream gets there.
     */
    if (has_time(e) || has_level(e))
        error = submit_record(e, s, function,
                              (has_time(e) ? TASK_RECORD_TIME : 0) |
                                  (has_level(e) ? TASK_RECORD_LEVEL : 0));
    if (error == 0)
        set_record(e, s->ctrl, s->tail, 0);
    return error;
}

/*
 * What record, reset and wait begin with: the event, right for this use, and the stream, locked and
 * with room. Room first, the event's lock after: waiting for room with it held would keep out the
 * very record that makes room.
 */
static struct event *begin(const char *function, aclrtEvent event, aclrtStream stream,
                           enum use_of_event use, struct stream **sp, int *error)
{
    struct event *e = event_find(function, event, error);

    if (!e)
        return NULL;
    *error = check_use(e, function, use);
    if (*error != 0)
        return NULL;
    *sp = stream_lock(function, stream, error);
    if (!*sp)
        return NULL;
    *error = stream_reserve(*sp, function);
    if (*error == 0)
        return e;
    stream_unlock(*sp);
    return NULL;
}

static int record(const char *function, aclrtEvent event, aclrtStream stream)
{
    int error;
    struct stream *s;
    struct event *e = begin(function, event, stream, USE_RECORD, &s, &error);

    if (!e)
        return error;
    if (e->kind == EVENT_IPC) {
        error = ipc_record(e, s, function);
    } else if ((error = event_lock(e, function, event)) == 0) {
        error = stream_idle(s) ? record_idle(e, s, function) : record_queued(e, s, function);
        if (error == 0)
            e->record_stream = s->remote;
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    REQUIRE(event);
    return record(__func__, event, stream);
}

/* An event keeps to the first flag that was used with it. */
static int check_flag(struct event *e, int8_t *first, const char *function, uint32_t flag)
{
    if (*first < 0)
        *first = (int8_t)flag;
    if (*first != (int8_t)flag)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the event was used with the other flag before", function);
    if (flag == 0)
        return 0;
    if (e->kind != EVENT_EX_SYNC || e->flags != ACL_EVENT_SYNC)
        return error_set(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%s: EXTERNAL needs an event of aclrtCreateEventExWithFlag(ACL_EVENT_SYNC)", function);
    return error_set(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: the stream is not capturing", function);
}

static int use_flag(const char *function, aclrtEvent event, uint32_t flag, bool record)
{
    int error;
    struct event *e = event_find(function, event, &error);

    if (!e)
        return error;
    error = event_lock(e, function, event);
    if (error != 0)
        return error;
    error = check_flag(e, record ? &e->record_flag : &e->wait_flag, function, flag);
    event_unlock(e);
    return error;
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag)
{
    int error;

    REQUIRE(event);
    if (flag > ACL_EVENT_RECORD_EXTERNAL)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtRecordEventWithFlag: flag %u is unknown",
                         flag);
    error = use_flag(__func__, event, flag, true);
    return error != 0 ? error : record(__func__, event, stream);
}

/* --- reset --- */

static int reset_level(struct event *e, struct stream *s, const char *function)
{
    struct task task = {.op = TASK_RESET, .object = e->remote, .generation = e->remote_generation};
    int error;

    if (stream_idle(s)) {
        event_slot_lower(e->shm);
        return 0;
    }
    error = stream_submit(s, function, &task);
    if (error == 0)
        event_used(e, s, USE_FENCE);
    return error;
}

/* A default event goes back to "not recorded" when the stream gets here, unless it is recorded anew
 * before or after that. */
static void reset_default(struct event *e, struct stream *s)
{
    e->reset = (struct point){.ctrl = s->ctrl, .position = s->tail};
    atomic_store_explicit(&e->reset_number,
                          atomic_load_explicit(&e->record_number, memory_order_relaxed),
                          memory_order_relaxed);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    int error;
    struct event *e;
    struct stream *s;

    REQUIRE(event);
    e = begin(__func__, event, stream, USE_RESET, &s, &error);
    if (!e)
        return error;
    error = event_lock(e, __func__, event);
    if (error == 0) {
        if (has_level(e))
            error = reset_level(e, s, __func__);
        else
            reset_default(e, s);
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}

/* Locked. The latest record, or none if a reset has undone it and has taken effect. */
static void read_record_locked(struct event *e, struct record *r)
{
    event_read_record(e, r);
    if (r->number != 0 &&
        r->number == atomic_load_explicit(&e->reset_number, memory_order_relaxed) &&
        point_passed(&e->reset))
        *r = (struct record){0};
}

/* The same without the lock, which only a default event that was reset takes. */
static inline void read_record(struct event *e, struct record *r)
{
    event_read_record(e, r);
    if (__builtin_expect(r->number == 0 || r->number != atomic_load_explicit(&e->reset_number,
                                                                             memory_order_relaxed),
                         1))
        return;
    pthread_mutex_lock(&e->lock);
    read_record_locked(e, r);
    pthread_mutex_unlock(&e->lock);
}

/* --- wait --- */

static int wait_level(struct event *e, struct stream *s, const char *function, uint64_t timeout_ns)
{
    struct task task = {.op = TASK_WAIT_LEVEL,
                        .object = e->remote,
                        .generation = e->remote_generation,
                        .wait.timeout_ns = timeout_ns};
    int error;

    if (stream_idle(s) &&
        (atomic_load_explicit(&e->shm->level, memory_order_acquire) & EVENT_LEVEL_UP))
        return 0;
    error = stream_submit(s, function, &task);
    if (error == 0)
        event_used(e, s, USE_FENCE | USE_WAITS);
    return error;
}

static int wait_record_of(struct event *e, struct stream *s, const char *function,
                          uint64_t timeout_ns)
{
    struct task task = {.op = TASK_WAIT_POS, .wait.timeout_ns = timeout_ns};
    struct record r;
    int error;

    read_record_locked(e, &r);
    if (e->kind == EVENT_DEFAULT && r.number == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the event was not recorded; a stream cannot wait for it yet",
                         function);
    if (point_passed(&r.point) || r.point.ctrl == s->ctrl)
        return 0;
    task.object = e->record_stream;
    task.wait.target = r.point.position;
    error = stream_submit(s, function, &task);
    /* The task names the other stream, not the event; only (a) has a wait status to tell. */
    if (error == 0 && e->kind == EVENT_DEFAULT)
        event_used(e, s, USE_WAITS);
    return error;
}

static int stream_wait(const char *function, aclrtStream stream, aclrtEvent event,
                       uint64_t timeout_ns)
{
    int error;
    struct stream *s;
    struct event *e = begin(function, event, stream, USE_WAIT, &s, &error);

    if (!e)
        return error;
    if (e->kind == EVENT_IPC) {
        error = ipc_wait(e, s, function, timeout_ns);
    } else if ((error = event_lock(e, function, event)) == 0) {
        error = has_level(e) ? wait_level(e, s, function, timeout_ns)
                             : wait_record_of(e, s, function, timeout_ns);
        event_unlock(e);
    }
    stream_unlock(s);
    return error;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    REQUIRE(event);
    return stream_wait(__func__, stream, event,
                       atomic_load_explicit(&op_wait_timeout_ns, memory_order_relaxed));
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout)
{
    if (timeout < 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtStreamWaitEventWithTimeout: timeout is %d s, must not be negative",
                         timeout);
    if (!event)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtStreamWaitEventWithTimeout: event is NULL");
    return stream_wait(__func__, stream, event, (uint64_t)timeout * NSEC_PER_SEC);
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                      uint32_t flag)
{
    int error;

    REQUIRE(event);
    if (flag > ACL_EVENT_WAIT_EXTERNAL || (flag == ACL_EVENT_WAIT_EXTERNAL && timeout != 0))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtStreamWaitEventWithFlag: flag %u is unknown, or takes no timeout",
                         flag);
    error = use_flag(__func__, event, flag, false);
    if (error != 0)
        return error;
    if (timeout == UINT32_MAX)
        return aclrtStreamWaitEvent(stream, event);
    return stream_wait(__func__, stream, event, (uint64_t)timeout * NSEC_PER_SEC);
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    int error = process_enter();

    if (error != 0)
        return error;
    atomic_store_explicit(&op_wait_timeout_ns, (uint64_t)timeout * NSEC_PER_SEC,
                          memory_order_relaxed);
    return 0;
}

/* --- query and synchronise --- */

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    int error = 0;
    struct event *e;
    struct record r;
    bool complete;

    REQUIRE(event);
    REQUIRE(status);
    e = event_find(__func__, event, &error);
    if (__builtin_expect(!e, 0))
        return error;
    if (__builtin_expect(session_lost(e->session), 0))
        return session_error_lost(__func__);
    if (e->kind == EVENT_IPC) {
        error = ipc_query(e, __func__, &complete);
        if (__builtin_expect(error != 0, 0))
            return error;
    } else {
        error = check_use(e, __func__, USE_QUERY_STATUS);
        if (error != 0)
            return error;
        read_record(e, &r);
        /* Before the first record the kinds differ: (a) and (b) are not ready, (c) is complete. */
        complete = point_passed(&r.point) && (r.number != 0 || e->kind >= EVENT_EX_SYNC);
    }
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return 0;
}

/* Checks that the remaining calls share: alive, right kind, npud there. NULL with *error set. */
static struct event *find_for(const char *function, aclrtEvent event, enum use_of_event use,
                              int *error)
{
    struct event *e = event_find(function, event, error);

    if (!e)
        return NULL;
    *error = check_use(e, function, use);
    if (*error == 0 && session_lost(e->session))
        *error = session_error_lost(function);
    return *error == 0 ? e : NULL;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    int error;
    struct event *e;
    struct record r;

    REQUIRE(event);
    REQUIRE(status);
    e = find_for(__func__, event, USE_QUERY, &error);
    if (!e)
        return error;
    read_record(e, &r);
    *status = point_passed(&r.point) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return 0;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    int error;
    struct event *e;

    REQUIRE(event);
    REQUIRE(status);
    e = find_for(__func__, event, USE_QUERY_WAIT, &error);
    if (!e)
        return error;
    *status = ACL_EVENT_WAIT_STATUS_COMPLETE;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < e->n_uses; i++)
        if ((e->uses[i].how & USE_WAITS) && !point_passed(&e->uses[i].point))
            *status = ACL_EVENT_WAIT_STATUS_NOT_READY;
    pthread_mutex_unlock(&e->lock);
    return 0;
}

static int synchronize(const char *function, aclrtEvent event, int32_t timeout)
{
    int error, r;
    struct event *e = find_for(function, event, USE_SYNCHRONIZE, &error);
    struct record record_now;
    uint64_t deadline = wait_deadline(timeout);

    if (!e)
        return error;
    if (e->kind == EVENT_IPC)
        return ipc_synchronize(e, function, timeout);
    read_record(e, &record_now);
    if (point_passed(&record_now.point))
        return 0;
    r = wait_position(e->session, record_now.point.ctrl, record_now.point.position, deadline);
    if (r == -ETIMEDOUT)
        return error_set(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "%s: not complete after %d ms", function,
                         timeout);
    return r == 0 ? 0 : session_error_lost(function);
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    REQUIRE(event);
    return synchronize(__func__, event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    if (timeout < -1)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtSynchronizeEventWithTimeout: timeout is %d ms", timeout);
    REQUIRE(event);
    if (timeout == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtSynchronizeEventWithTimeout: timeout is 0 ms");
    return synchronize(__func__, event, timeout);
}

/* --- timing --- */

static int timestamp(struct event *e, const char *function, uint64_t *ns)
{
    struct record r;

    read_record(e, &r);
    if (r.number == 0)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR, "%s: the event was never recorded", function);
    if (!has_time(e))
        return error_set(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                         "%s: the event was made without ACL_EVENT_TIME_LINE", function);
    if (!point_passed(&r.point))
        return error_set(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                         "%s: the record is not complete: synchronise its stream first", function);
    if (r.ns != 0)
        *ns = r.ns;
    else if (!event_slot_get_time(e->shm, r.number, ns))
        return error_set(
            ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
            "%s: no timestamp: the event was recorded anew, or its stream was destroyed", function);
    return 0;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    int error;
    struct event *start, *end;
    uint64_t from = 0, to = 0;

    REQUIRE(ms);
    REQUIRE(startEvent);
    REQUIRE(endEvent);
    start = find_for(__func__, startEvent, USE_TIMING, &error);
    end = start ? find_for(__func__, endEvent, USE_TIMING, &error) : NULL;
    if (!end)
        return error;
    error = timestamp(start, __func__, &from);
    if (error == 0)
        error = timestamp(end, __func__, &to);
    if (error == 0)
        *ms = (float)((double)(int64_t)(to - from) / 1e6);
    return error;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp_us)
{
    int error;
    struct event *e;
    uint64_t ns = 0;

    REQUIRE(event);
    REQUIRE(timestamp_us);
    e = find_for(__func__, event, USE_TIMING, &error);
    if (!e)
        return error;
    error = timestamp(e, __func__, &ns);
    if (error == 0)
        *timestamp_us = (ns - e->session->epoch_ns) / NSEC_PER_USEC;
    return error;
}

/* --- ids --- */

/*
 * Ids as the vendor's devices hand them out do not exist here; programs print them. Kinds that hold
 * one while a record is outstanding show npud's slot number under the same conditions.
 */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId)
{
    int error;
    struct event *e;
    struct record r;
    bool has = true;

    REQUIRE(event);
    REQUIRE(eventId);
    e = event_find(__func__, event, &error);
    if (!e)
        return error;
    if (e->kind == EVENT_IPC)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "aclrtGetEventId: not possible with an IPC event");
    event_read_record(e, &r);
    if (e->kind == EVENT_MARK || e->kind == EVENT_EX_MARK)
        has = false;
    else if (e->kind == EVENT_DEFAULT)
        has = r.number != 0;
    else if (e->kind == EVENT_EX_SYNC)
        has = !point_passed(&r.point);
    if (!has)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                         "aclrtGetEventId: the event has no id at the moment");
    *eventId = e->remote;
    return 0;
}

aclError aclrtGetEventAvailNum(uint32_t *eventCount)
{
    int error;
    struct context *c;

    REQUIRE(eventCount);
    c = context_get(__func__, &error);
    if (!c)
        return error;
    pthread_mutex_lock(&c->session->lock);
    *eventCount = SESSION_EVENTS_MAX - c->session->events.live;
    pthread_mutex_unlock(&c->session->lock);
    return 0;
}
