#include "daemon/stream.h"

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/device.h"
#include "daemon/engine.h"
#include "daemon/ipc_event.h"
#include "daemon/notify.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "proto/arena.h"
#include "proto/futex.h"

void stream_publish(struct stream *s, uint64_t position)
{
    /*
     * The client first: another engine that sees our own copy may retire a wait for this position, and the client
     * must not learn of that before it can see what was waited for.
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
    s->timer = 0;
    s->callback = s->callbacks = 0;
    s->judged = 0;
    s->ordinal = session->streams_made++;
    s->failure.code = 0;
    s->stuck = s->discarding = false;
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
 * Whoever waits for an IPC record that is queued here would wait for good. Read like any entry: a copy, which can only name records of
 * this session's own. Returns where the first entry is that was not there.
 */
static uint64_t drop_records(struct stream *s)
{
    uint64_t p;

    for (p = s->head; p - s->head < s->depth; p++) {
        struct task task;
        struct ipc_open *open;

        if (!stream_read_entry(s, p, &task))
            break;
        if (p == s->head && stream_has_begun(s))
            continue;
        notify_drop_task(s->session, &task);
        if (task.op != TASK_IPC_RECORD)
            continue;
        open = slots_get_generation(&s->session->ipc, task.object, task.generation);
        if (open)
            ipc_event_drop(open, task.ipc.number);
    }
    ipc_events_wake(&s->session->server->ipc);
    return p;
}

/* IPC records of a session that ends are failed when its open events are freed; for notifies the rings are all there is to tell. */
void stream_drop_notifies(struct stream *s)
{
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);
    struct task task;

    /* Not further than the tail: the first look at a page of a ring makes the kernel give it memory. */
    for (uint64_t p = s->head; p != tail && p - s->head < s->depth; p++) {
        if (!stream_read_entry(s, p, &task))
            break;
        if (p != s->head || !stream_has_begun(s))
            notify_drop_task(s->session, &task);
    }
}

/* The stream's end: it is the client's number, and decides no more than where the client's own slot goes on; one that cannot be is replaced by
 * the furthest that can. */
static uint64_t end_of(const struct stream *s)
{
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);

    return tail - s->head > s->depth ? s->head + s->depth : tail;
}

static void discard(struct stream *s, uint64_t tail, int32_t told)
{
    engine_forget(s->attach->device->engine, s);
    if (tail != s->head)
        s->attach->vain = 0; /* it rang for these */
    values_drop(s);
    s->has_task = false;
    s->failure.code = 0;
    s->head = tail;
    atomic_store(&s->ctrl->watched, 0);
    /* A client whose session ends while it lives learns that from its socket, and not that its work is done. */
    if (s->session->halted)
        return;
    if (told != 0) {
        atomic_store_explicit(&s->ctrl->aborts, (uint64_t)++s->aborts << 32 | (uint32_t)told,
                              memory_order_relaxed);
        waitlist_fire(&s->passed, 0, UINT64_MAX, told, 0);
    }
    stream_publish(s, tail);
}

/* A task that came after the last look, from somebody who found the stream watched and did not ring. */
static void look_again(struct stream *s)
{
    /* Dekker with the submitter, who stores the sequence and then loads watched. */
    if (s->session->halted ||
        atomic_load(&s->ring[s->head & (s->depth - 1)].sequence) != s->head + 1)
        return;
    atomic_store_explicit(&s->ctrl->watched, 1, memory_order_relaxed);
    s->run = RUN_PARKED;
    engine_unpark(s);
}

void stream_abort(struct stream *s, int32_t told)
{
    uint64_t end;

    /*
     * A whole ring of records takes its time, in which the engines are not kept out. "Parked" keeps this one off the stream: it
     * passes over the doorbell's bits of such ones, and those it swallows here are of tasks that are discarded below, too.
     */
    session_lock(s->session);
    engine_forget(s->attach->device->engine, s);
    s->run = RUN_PARKED;
    s->discarding = true;
    session_unlock(s->session);
    end = drop_records(s);
    session_lock(s->session);
    /* Not to the tail: a task on its way there may be a record, and was not looked at. */
    discard(s, end, told);
    s->discarding = false;
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
    discard(s, end_of(s), 0);
    waitlist_fire(&s->passed, 0, UINT64_MAX, 0, 0);
    waitlist_deinit(&s->passed);
    context_leave(s);
    session_unlock(session);
    a->streams--;
    release(s);
}
