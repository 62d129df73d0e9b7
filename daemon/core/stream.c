#include "daemon/core/stream.h"

#include <stdlib.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/arena.h"
#include "proto/util/futex.h"

void stream_publish(struct stream *s, uint64_t position)
{
    /*
     * The client first: another engine that sees our own copy may retire a wait for this position,
     * and the client must not learn of that before it can see what was waited for.
     */
    bool wake = stream_publish_done(s->ctrl, position);

    atomic_store_explicit(&s->done, position, memory_order_release);
    if (wake)
        futex_wake_all(&s->ctrl->wake_seq);
    waitlist_fire(&s->passed, 0, position, 0, 0);
}

void stream_fail(struct stream *s, int32_t error, int32_t pid)
{
    s->failure = (struct failure){.code = error, .pid = pid};
}

/*
 * Positions go on where the slot's last stream stopped, so that what was captured of it reads as
 * passed. The shared memory is only told where that is; npud remembers it itself (the slot's
 * content outlives its owner).
 */
static void reset_ctrl(struct stream *s)
{
    uint64_t start = atomic_load_explicit(&s->done, memory_order_relaxed);

    s->head = s->first = start;
    atomic_store_explicit(&s->ctrl->number, s->slot.number, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->tail, start, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->wake_at, STREAM_WAKE_NONE, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->done, start, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->watched, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->error, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->callbacks, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->callbacks_done, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->stopped, 0, memory_order_relaxed);
}

uint64_t stream_end(const struct stream *s)
{
    uint64_t done = atomic_load(&s->done);
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);

    return tail - done > s->depth ? done + s->depth : tail;
}

/* --- contexts --- */

static bool context_join(struct stream *s, uint32_t number)
{
    struct attach *a = s->attach;
    struct engine *engine = a->device->engine;
    struct context *c;

    LL_SEARCH_SCALAR(a->contexts, c, number, number);
    if (!c) {
        c = calloc(1, sizeof(*c));
        if (!c)
            return false;
        c->number = number;
        LL_PREPEND(a->contexts, c);
    }
    s->context = c;
    engine_lock(engine);
    DL_APPEND2(c->streams, s, context_prev, context_next);
    /* A context that has stopped stays so for what comes later. */
    atomic_store(&s->stopped, c->code);
    atomic_store(&s->ctrl->stopped, c->code ? stream_error_make(c->code, c->pid) : 0);
    engine_unlock(engine);
    return true;
}

static void context_leave(struct stream *s)
{
    struct context *c = s->context;

    DL_DELETE2(c->streams, s, context_prev, context_next);
    s->context = NULL;
    if (c->streams)
        return;
    LL_DELETE(s->attach->contexts, c);
    free(c);
}

void stream_stop_at_failure(struct stream *s)
{
    engine_lock(s->attach->device->engine);
    s->context->stop = true;
    engine_unlock(s->attach->device->engine);
}

static int32_t acquire(struct stream *s, struct session *session, struct attach *attach,
                       int *segment_fd)
{
    uint32_t depth = session_ring_depth(session);
    void *segment;

    if (charge_init(&s->charge, session_users(session), session->user, RESOURCE_STREAMS, 1) < 0)
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    s->id = slots_take(&attach->device->stream_ids);
    if (!s->id) {
        charge_deinit(&s->charge);
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    }
    segment = session_segment(session, &session->stream_segments, s->slot.number / ARENA_STREAMS,
                              arena_stream_segment_size(depth), segment_fd);
    if (!segment) {
        slots_put(&attach->device->stream_ids, s->id);
        charge_deinit(&s->charge);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    slots_publish(s->id);
    s->depth = depth;
    s->ctrl = arena_stream_ctrl(segment, s->slot.number);
    s->ring = arena_stream_ring(segment, s->slot.number, depth);
    return 0;
}

/* Give back what acquire() took, and the slot. */
static void release(struct stream *s)
{
    slots_put(&s->attach->device->stream_ids, s->id);
    charge_deinit(&s->charge);
    slots_put(&s->session->streams, s);
}

int32_t stream_new(struct session *session, struct attach *attach, uint32_t context,
                   uint32_t priority, uint32_t flags, struct stream **streamp, int *segment_fd)
{
    struct stream *s = slots_take(&session->streams);
    int32_t error;

    if (!s)
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    error = acquire(s, session, attach, segment_fd);
    if (error != 0) {
        slots_put(&session->streams, s);
        return error;
    }
    s->session = session;
    s->attach = attach;
    s->priority = priority;
    s->flags = flags;
    s->run = RUN_IDLE;
    s->has_task = false;
    s->waiting_on = NULL;
    s->in_inbox = false;
    s->took = false;
    s->waiter = (struct waiter){0};
    s->changing = false;
    s->counted = false;
    s->timer = (struct timer){0};
    s->callback = s->callbacks = 0;
    s->judged = 0;
    s->ordinal = session->streams_made++;
    s->failure.code = 0;
    s->stuck = s->held = false;
    s->taskless = 0;
    s->failures = 0;
    s->failed.task = s->failed.thread = 0;
    s->failed.code = 0;
    waitlist_init(&s->passed);
    reset_ctrl(s);
    if (!context_join(s, context)) {
        waitlist_deinit(&s->passed);
        release(s);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    attach->streams++;
    slots_publish(s);
    *streamp = s;
    return 0;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t streams_left(const struct session *session, const struct attach *attach)
{
    uint64_t limit = session->server->users.limit[RESOURCE_STREAMS];
    uint64_t used = session->user->used[RESOURCE_STREAMS];
    const struct slots *ids = &attach->device->stream_ids;
    uint64_t left = session->streams.max - session->streams.live;

    left = min_u64(left, used < limit ? limit - used : 0);
    return (uint32_t)min_u64(left, ids->max - ids->live);
}

/*
 * The client has raised the level and completed the record at the call: the streams that wait for
 * that level go on all the same.
 */
static void wake_level_of(struct stream *s, const struct task *task)
{
    struct event_obj *ev =
        slots_get_generation(&s->session->events, task->object, task->generation);

    if (ev)
        event_obj_record(ev, task->record.number, TASK_RECORD_WAKE);
}

/*
 * The stream's end: it is the client's number, and decides no more than where the client's own slot
 * goes on; one that cannot be is replaced by the furthest that can.
 */
static uint64_t end_of(const struct stream *s)
{
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);

    return tail - s->head > s->depth ? s->head + s->depth : tail;
}

/*
 * Whoever waits for an IPC record that is queued here would wait for good. Read like any entry: a
 * copy, which can only name records of this session's own. Returns where the first entry is that
 * was not there.
 *
 * Not further than the tail, because the first look at a page of a ring makes the kernel give it
 * memory: an entry behind it is of a submission that has just begun, for which look_again() looks.
 * The task at head was there, whatever the tail says now.
 */
static uint64_t drop_records(struct stream *s)
{
    uint64_t p, end = end_of(s);

    if (s->has_task && end == s->head)
        end++;
    for (p = s->head; p != end; p++) {
        struct task task;
        struct ipc_open *open;

        if (!stream_read_entry(s, p, &task))
            break;
        if (p == s->head && stream_has_begun(s))
            continue;
        notify_drop_task(s->session, &task);
        if (task.op == TASK_RECORD && (task.flags & TASK_RECORD_WAKE))
            wake_level_of(s, &task);
        if (task.op != TASK_IPC_RECORD)
            continue;
        open = slots_get_generation(&s->session->ipc, task.object, task.generation);
        if (open)
            ipc_event_drop(open, task.ipc.number);
    }
    ipc_events_wake(s->session->server->ipc);
    return p;
}

/*
 * IPC records of a session that ends are failed when its open events are freed; for notifies the
 * rings are all there is to tell.
 */
void stream_drop_notifies(struct stream *s)
{
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);
    struct task task;

    /*
     * Not further than the tail: the first look at a page of a ring makes the kernel give it
     * memory.
     */
    for (uint64_t p = s->head; p != tail && p - s->head < s->depth; p++) {
        if (!stream_read_entry(s, p, &task))
            break;
        if (p != s->head || !stream_has_begun(s))
            notify_drop_task(s->session, &task);
    }
}

/* What is queued up to `tail` is over without having been executed; done does not tell yet. */
static void drop(struct stream *s, uint64_t tail)
{
    engine_forget(s->attach->device->engine, s);
    if (tail != s->head)
        s->attach->vain = 0; /* it rang for these */
    engine_drop_task(s);
    s->has_task = false;
    s->failure.code = 0;
    s->head = tail;
    atomic_store(&s->ctrl->watched, 0);
}

/*
 * A task that came after the last look: its submitter found the stream watched and did not ring, or
 * rang while the stream was held, and the engine passed over that.
 *
 * If no submitter can have found the stream watched, only the ring tells of such a task; the engine
 * took its bit from the doorbell after the tail was stored, and under its lock. So the tail is told
 * by then, and a ring that is not used is not looked at, which would make the kernel give it
 * memory.
 */
static void look_again(struct stream *s)
{
    if (s->session->halted || (!s->held_watched && end_of(s) == s->head))
        return;
    /* Dekker with the submitter, who stores the sequence and then loads watched. */
    if (atomic_load(&s->ring[s->head & (s->depth - 1)].sequence) != s->head + 1)
        return;
    atomic_store_explicit(&s->ctrl->watched, 1, memory_order_relaxed);
    s->run = RUN_PARKED;
    engine_unpark(s);
}

/* "Parked" keeps the engine off the stream: it passes over the doorbell's bits of such ones. */
static void park_held(struct stream *s)
{
    s->run = RUN_PARKED;
    s->held = true;
}

void stream_hold(struct stream *s)
{
    uint64_t end;

    if (s->held)
        return;
    /*
     * A whole ring of records takes its time, in which the engines are not kept out. The bits of
     * the doorbell that are passed over meanwhile are of tasks that are dropped, or looked for at
     * the end.
     */
    session_lock(s->session);
    s->held_watched = s->run != RUN_IDLE;
    engine_forget(s->attach->device->engine, s);
    park_held(s);
    s->held_from = s->head;
    session_unlock(s->session);
    end = drop_records(s);
    session_lock(s->session);
    /* Not to the tail: a task on its way there may be a record, and was not looked at. */
    drop(s, end);
    park_held(s);
    session_unlock(s->session);
}

int32_t stream_discarded(const struct session *session, uint32_t slot, uint64_t position)
{
    const struct stream *s = slots_at(&session->streams, slot);
    const struct discards *d = s ? s->discards : NULL;

    for (uint32_t i = 0; d && i < d->n; i++)
        if (position > d->range[i].from && position <= d->range[i].to)
            return d->range[i].code;
    return 0;
}

void streams_forget_discards(struct session *session)
{
    for (uint32_t i = 0; i < session->streams.end; i++) {
        struct stream *s = slots_at(&session->streams, i);

        free(s->discards);
        s->discards = NULL;
    }
}

/* Without memory for it, streams that come to their waits later go on. */
static void remember_discard(struct stream *s, int32_t code)
{
    struct discards *d = s->discards;

    if (code == 0 || s->head == s->held_from)
        return;
    if (!d)
        d = s->discards = calloc(1, sizeof(*d));
    if (!d)
        return;
    if (d->n == DISCARDS_MAX)
        memmove(&d->range[0], &d->range[1], --d->n * sizeof(d->range[0]));
    d->range[d->n++] = (struct discard){.from = s->held_from, .to = s->head, .code = code};
}

void stream_abort(struct stream *s, int32_t told)
{
    stream_hold(s);
    session_lock(s->session);
    remember_discard(s, told);
    s->run = RUN_IDLE;
    s->held = false;
    /*
     * A client whose session ends while it lives learns that from its socket, and not that its work
     * is done.
     */
    if (!s->session->halted) {
        /* What was executed is done, and only who waits for what was not executed is told so. */
        waitlist_fire(&s->passed, 0, s->held_from, 0, 0);
        waitlist_fire(&s->passed, s->held_from + 1, s->head, told, 0);
        stream_publish(s, s->head);
    }
    look_again(s);
    session_unlock(s->session);
}

void stream_free(struct stream *s)
{
    struct session *session = s->session;
    struct attach *a = s->attach;

    /* All engines of the session, because those of other devices may be about to park a stream on
     * this one. */
    session_lock(session);
    slots_unpublish(s);
    drop(s, end_of(s));
    if (!session->halted)
        stream_publish(s, s->head);
    waitlist_fire(&s->passed, 0, UINT64_MAX, 0, 0);
    waitlist_deinit(&s->passed);
    context_leave(s);
    session_unlock(session);
    a->streams--;
    release(s);
}
