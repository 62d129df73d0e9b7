#include "daemon/core/stream_abort.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/base/kill_here.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"
#include "daemon/core/stream.h"

/*
 * The client has raised the level and completed the record at the call: the streams that wait for
 * that level go on all the same.
 */
static void wake_level_of(struct stream *s, const struct task *task)
{
    struct event_obj *ev =
        slots_get_generation(&s->session->events, task->object, task->generation);

    if (ev)
        event_obj_record(ev, NULL, task->record.number, TASK_RECORD_WAKE);
}

/* Of the one that is under way, what is behind its current task, or from that on. */
static unsigned drop_graph(struct stream *s, uint64_t p, const struct task *task, unsigned max)
{
    bool here = p == s->live->position && stream_kept_in_graph(s->live);

    return engine_drop_graph(
        s, task, here ? graph_at_index(s->live->graph_at) + stream_has_begun(s) : 0, max);
}

static void note_dropped(struct stream *s, uint64_t p)
{
    kept_order();
    s->live->dropped_to = p;
    kept_order();
    KILL_HERE(HOLD_DROPS);
}

/*
 * IPC records that are queued here fail, because their waiters would wait for good. Read like any
 * entry: a copy, which can only name records of this session's own. Returns where the first entry
 * is that was not there.
 */
static uint64_t drop_records(struct stream *s)
{
    uint64_t p, end = s->live->drop_end;
    unsigned budget = GRAPH_DROPS_MAX;

    /* Behind those that the npud before has dropped. */
    for (p = s->live->dropped_to; (int64_t)(end - p) > 0; p++, note_dropped(s, p)) {
        struct task task;
        struct ipc_open *open;

        if (!stream_read_entry(s, p, &task))
            break;
        if (task.op == TASK_GRAPH)
            budget -= drop_graph(s, p, &task, budget);
        if (p == s->live->position && stream_has_begun(s))
            continue;
        notify_drop_task(s, p, &task, KEPT_CONTROL);
        if (task.op == TASK_RECORD && (task.flags & TASK_RECORD_WAKE))
            wake_level_of(s, &task);
        if (task.op != TASK_IPC_RECORD)
            continue;
        open = slots_get_generation(&s->session->ipc, task.object, task.generation);
        if (open)
            ipc_record_drop(open, task.ipc.number);
    }
    ipc_records_wake(s->session->server->ipc);
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
    unsigned budget = GRAPH_DROPS_MAX;

    /*
     * Not further than the tail: the first look at a page of a ring makes the kernel give it
     * memory.
     */
    for (uint64_t p = s->live->position; p != tail && p - s->live->position < s->depth; p++) {
        if (!stream_read_entry(s, p, &task))
            break;
        if (task.op == TASK_GRAPH)
            budget -= drop_graph(s, p, &task, budget);
        if (p != s->live->position || !stream_has_begun(s))
            notify_drop_task(s, p, &task, KEPT_CONTROL);
    }
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
    if (s->session->halted || (!s->held_watched && stream_ring_end(s) == s->live->position))
        return;
    /* Dekker with the submitter, which stores the sequence and then loads watched. */
    if (atomic_load(&s->ring[s->live->position & (s->depth - 1)].sequence) != s->live->position + 1)
        return;
    atomic_store_explicit(&s->ctrl->watched, 1, memory_order_relaxed);
    s->run = RUN_PARKED;
    engine_unpark(s);
}

/*
 * Behind what is queued. Not further than the tail, because the first look at a page of a ring
 * makes the kernel give it memory: an entry behind it is of a submission that has just begun, for
 * which look_again() looks. The task at head was there, whatever the tail says now.
 */
static uint64_t end_of_queue(const struct stream *s)
{
    uint64_t end = stream_ring_end(s);

    return stream_has_read(s) && end == s->live->position ? end + 1 : end;
}

/*
 * False: it is held already, and all that was queued is dropped. What is to be dropped is noted: a
 * later npud that goes on with it leaves alone what has come since.
 */
static bool take_from_engine(struct stream *s)
{
    bool held;

    session_lock(s->session);
    held = s->live->held == STREAM_HELD;
    if (s->run != RUN_HELD) {
        s->held_watched = s->run != RUN_IDLE;
        engine_forget(s->attach->device->engine, s);
        s->run = RUN_HELD;
        s->live->held_from = s->live->dropped_to = s->live->position;
        s->live->drop_end = end_of_queue(s);
        kept_order();
        s->live->held = STREAM_DROPPING;
    }
    session_unlock(s->session);
    return !held;
}

void stream_hold(struct stream *s)
{
    uint64_t end;

    if (!take_from_engine(s))
        return;
    KILL_HERE(HOLD_TAKEN);
    /*
     * A whole ring of records takes its time, in which the engines are not kept out. The bits of
     * the doorbell that are passed over meanwhile are of tasks that are dropped, or looked for at
     * the end.
     */
    end = drop_records(s);
    session_lock(s->session);
    /* Not to the tail: a task on its way there may be a record, and was not looked at. */
    stream_drop_queue(s, end);
    s->run = RUN_HELD;
    kept_order();
    s->live->held = STREAM_HELD;
    session_unlock(s->session);
    KILL_HERE(HOLD_DROPPED);
}

int32_t stream_discarded(const struct session *session, uint32_t slot, uint64_t position)
{
    const struct stream *s = slots_at(&session->streams, slot);
    const struct discards_kept *d = s && s->discards ? s->discards->live : NULL;

    for (uint32_t i = 0; d && i < d->n && i < DISCARDS_MAX; i++)
        if (position > d->range[i].from && position <= d->range[i].to)
            return (int32_t)d->range[i].code;
    return 0;
}

bool stream_forget_discards(struct session *session, uint32_t *slot, uint32_t max)
{
    for (; max > 0 && *slot < session->streams.end; max--, ++*slot) {
        struct stream *s = slots_at(&session->streams, *slot);

        if (s->discards)
            kept_drop(&s->discards->kept);
        free(s->discards);
        s->discards = NULL;
    }
    return *slot >= session->streams.end;
}

#define DISCARDS_MEMBERS(DO)                                                                       \
    DO##FIND(session, session, id, session_by_id(r->session));                                     \
    DO##SAME(slot, slot);

RECORD_LIVE(static, discards, DISCARDS, struct discards, kept, struct discards_record,
            DISCARDS_MEMBERS, live)

static struct discards *make_discards(struct session *session, uint32_t slot)
{
    struct discards *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->session = session;
    d->slot = slot;
    if (discards_keep(d))
        return d;
    free(d);
    return NULL;
}

bool discards_restore(struct server *server, struct kept_cell *cell)
{
    struct discards *d = calloc(1, sizeof(*d));
    struct discards_record r;
    struct stream *s;

    kept_read(cell, &r, sizeof(r));
    if (!d || !discards_back(server, d, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    s = slots_restore_memory(&d->session->streams, d->slot);
    if (s)
        s->discards = d;
    return s;
}

/* Without memory for it, streams that come to their waits later go on. */
static void remember_discard(struct stream *s, int32_t code)
{
    struct discards *d = s->discards;
    struct discard *r;

    if (code == 0 || s->live->position == s->live->held_from)
        return;
    if (!d) {
        d = s->discards = make_discards(s->session, s->slot.number);
        /* The stream is let go below, which is not undone: this must be there by then. */
        kept_commit();
    }
    if (!d)
        return;
    r = &d->live->range[d->live->n % DISCARDS_MAX];
    /* No position is in it, until it is complete. */
    r->to = 0;
    kept_order();
    r->from = s->live->held_from;
    r->code = code;
    kept_order();
    KILL_HERE(DISCARD_BEGUN);
    r->to = s->live->position;
    KILL_HERE(DISCARD_NOTED);
    d->live->n++;
}

void stream_abort(struct stream *s, int32_t told, uint64_t request)
{
    if (request != 0 && s->live->last_request == request && s->live->held == STREAM_FREE)
        return; /* the npud before has carried it out, and not answered */
    stream_hold(s);
    session_lock(s->session);
    assert(s->run == RUN_HELD);
    remember_discard(s, told);
    /*
     * A client whose session ends while it lives learns that from its socket, and not that its work
     * is done.
     */
    if (!s->session->halted) {
        /* What was executed is done. Only waiters for what was not executed are told so. */
        waitlist_fire(&s->passed, 0, s->live->held_from, 0, 0);
        waitlist_fire(&s->passed, s->live->held_from + 1, s->live->position, told, 0);
        stream_publish(s, s->live->position);
    }
    KILL_HERE(ABORT_TOLD);
    kept_order();
    s->live->last_request = request;
    kept_order();
    s->live->held = STREAM_FREE;
    s->run = RUN_IDLE;
    KILL_HERE(ABORT_FREE);
    look_again(s);
    session_unlock(s->session);
}
