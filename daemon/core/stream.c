#include "daemon/core/stream.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/kept/record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/arena.h"

void stream_publish(struct stream *s, uint64_t position)
{
    /*
     * The client first: another engine that sees `done` of npud may retire a wait for this
     * position, and the client must not learn of that before it can see what was waited for.
     */
    stream_store_done(s->ctrl, position);
    KILL_HERE(DONE_TOLD);
    atomic_store_explicit(&s->live->done, position, memory_order_release);
    KILL_HERE(DONE_KEPT);
    /*
     * One fence is enough for threads and streams that wait. If npud ends before it has woken them,
     * the next npud does (engine/restore.c).
     */
    if (stream_wake_due(s->ctrl, position))
        waker_wake(&s->ctrl->wake_seq);
    waitlist_fire_fenced(&s->passed, 0, position, 0, 0);
}

void stream_fail(struct stream *s, int32_t error, int32_t pid)
{
    s->live->failure = (struct failure){.code = error, .pid = pid};
    head_note(s->live, &s->live->failure_at);
    KILL_HERE(FAILURE_NOTED);
}

void stream_let_go(struct stream *s, int32_t result, int32_t pid)
{
    s->waiter.result = result;
    s->waiter.pid = pid;
    if (result == EVENT_LOOK_AGAIN)
        return;
    s->live->outcome = (struct failure){result, pid};
    head_note(s->live, &s->live->outcome_at);
    KILL_HERE(WAIT_OVER);
}

/*
 * Positions go on where the slot's last stream stopped, so that what was captured of it reads as
 * passed.
 */
static void reset_kept(struct stream *s, uint32_t context, uint32_t priority, uint32_t flags)
{
    const size_t behind_done = offsetof(struct stream_kept, begun_at);
    struct stream_kept *k = s->live;

    k->position = atomic_load_explicit(&k->done, memory_order_relaxed);
    /* But for `done`: the next npud, too, must know where positions go on. */
    memset((unsigned char *)k + behind_done, 0, sizeof(*k) - behind_done);
    KILL_HERE(STREAM_CLEARED);
    k->first = k->position;
    k->flags = flags;
    k->priority = priority;
    k->context = context;
    k->device = s->attach->device->index;
    k->ordinal = s->session->streams_made++;
    kept_touch(&s->session->kept);
}

/* The shared memory is only told where positions go on; npud remembers it itself. */
static void reset_ctrl(struct stream *s)
{
    uint64_t start = s->live->position;

    atomic_store_explicit(&s->ctrl->number, s->slot.number, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->tail, start, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->wake_at, STREAM_WAKE_NONE, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->done, start, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->watched, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->error, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->callbacks, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->callbacks_done, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->work_result, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->stopped, 0, memory_order_relaxed);
}

uint64_t stream_end(const struct stream *s)
{
    uint64_t done = atomic_load(&s->live->done);
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);

    return tail - done > s->depth ? done + s->depth : tail;
}

/* --- contexts --- */

#define CONTEXT_MEMBERS(DO)                                                                        \
    DO##DERIVED(session, o->attach->session->id);                                                  \
    DO##FIND(device, attach, device->index, session_attach(session_by_id(r->session), r->device)); \
    DO##SAME(number, number);                                                                      \
    DO##SAME(stop, stop);

RECORD_LIVE(static, context, CONTEXT, struct context, kept, struct context_record, CONTEXT_MEMBERS,
            end)

/* Found, or made. NULL: no memory. */
static struct context *get_context(struct attach *a, uint32_t number)
{
    struct context *c;

    LL_SEARCH_SCALAR(a->contexts, c, number, number);
    if (c)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->attach = a;
    c->number = number;
    if (!context_keep(c)) {
        free(c);
        return NULL;
    }
    LL_PREPEND(a->contexts, c);
    return c;
}

bool context_restore(struct server *server, struct kept_cell *cell)
{
    struct context_record r;
    struct context *c;

    kept_read(cell, &r, sizeof(r));
    c = session_by_id(r.session) ? calloc(1, sizeof(*c)) : NULL;
    if (!c || !context_back(server, c, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    LL_PREPEND(c->attach->contexts, c);
    return true;
}

static void context_join(struct stream *s, struct context *c)
{
    struct engine *engine = s->attach->device->engine;

    s->context = c;
    engine_lock(engine);
    DL_APPEND2(c->streams, s, context_prev, context_next);
    /* A context that has stopped stays so for what comes later. */
    atomic_store(&s->stopped, stream_error_code(*c->end));
    atomic_store(&s->ctrl->stopped, *c->end);
    engine_unlock(engine);
}

/* A context goes with the last of its streams. */
static void put_context(struct attach *a, struct context *c)
{
    if (c->streams)
        return;
    LL_DELETE(a->contexts, c);
    kept_drop(&c->kept);
    free(c);
}

static void context_leave(struct stream *s)
{
    struct context *c = s->context;

    DL_DELETE2(c->streams, s, context_prev, context_next);
    s->context = NULL;
    put_context(s->attach, c);
}

void stream_stop_at_failure(struct stream *s)
{
    engine_lock(s->attach->device->engine);
    s->context->stop = true;
    kept_touch(&s->context->kept);
    engine_unlock(s->attach->device->engine);
}

/* An id, and a place in the arena. */
static enum cause take_place(struct stream *s, int *file_fd)
{
    struct session *session = s->session;
    struct slots *ids = &s->attach->device->stream_ids;
    struct slot *id;
    uint32_t depth = session->ring_depth;
    enum cause cause;
    void *map;

    id = slots_take(ids);
    if (!id)
        return slots_full(ids) ? CAUSE_STREAM_IDS : CAUSE_MEMORY;
    cause = session_arena_file(session, &session->stream_files, s->slot.number,
                               arena_stream_file_size(depth), &map, file_fd);
    if (cause != CAUSE_NONE) {
        slots_put(ids, id);
        return cause;
    }
    slots_publish(id);
    s->id = id->number;
    s->depth = depth;
    s->ctrl = arena_stream_ctrl(map, s->slot.number);
    s->ring = arena_stream_ring(map, s->slot.number, depth);
    s->live =
        arena_kept_at(session->stream_files.file[s->slot.number / ARENA_STREAMS], s->slot.number);
    return CAUSE_NONE;
}

static enum cause take_resources(struct stream *s, int *file_fd)
{
    struct session *session = s->session;
    enum cause cause;

    if (user_charge_more(&session->charge_streams, session->user, RESOURCE_STREAMS, 1) < 0)
        return CAUSE_USER_STREAMS;
    cause = take_place(s, file_fd);
    if (cause != CAUSE_NONE)
        user_uncharge_part(&session->charge_streams, 1);
    return cause;
}

/* Give back what take_resources() took, and the slot. */
static void give_resources_back(struct stream *s)
{
    struct slots *ids = &s->attach->device->stream_ids;

    slots_put(ids, slots_at(ids, s->id));
    user_uncharge_part(&s->session->charge_streams, 1);
    slots_put(&s->session->streams, s);
}

/* What a stream begins with that runs nothing. */
static void reset_engine_part(struct stream *s)
{
    s->run = RUN_IDLE;
    s->waiting_on = NULL;
    s->in_inbox = false;
    s->waiter = (struct waiter){0};
    s->away = false;
    s->changing = false;
    s->uses[0] = s->uses[1] = NULL;
    s->counted = false;
    s->count_change = 0;
    s->timer = (struct timer){0};
    s->in_callback = false;
    s->graph = NULL;
    waitlist_init(&s->passed);
}

enum cause stream_new(struct session *session, struct attach *attach, uint32_t context,
                      uint32_t priority, uint32_t flags, struct stream **streamp, int *file_fd)
{
    enum cause cause;
    struct context *c;
    struct stream *s =
        session_take_slot(session, &session->streams, CAUSE_STREAMS_OF_SESSION, &cause);

    if (!s)
        return cause;
    c = get_context(attach, context);
    if (!c) {
        slots_put(&session->streams, s);
        return CAUSE_MEMORY;
    }
    s->session = session;
    s->attach = attach;
    /* The last that can fail: else npud had a file that a refused client has not. */
    cause = take_resources(s, file_fd);
    if (cause != CAUSE_NONE) {
        put_context(attach, c);
        slots_put(&session->streams, s);
        return cause;
    }
    reset_engine_part(s);
    reset_kept(s, context, priority, flags);
    reset_ctrl(s);
    context_join(s, c);
    attach->streams++;
    kept_set(&s->live->is, stream_is(slot_generation(s), s->id));
    slots_publish(s);
    *streamp = s;
    return CAUSE_NONE;
}

/* --- again --- */

/* As the constructor and the engine have left it; engine_finish_restoring() does the rest. */
static bool restore_stream(struct arena_file *file, uint32_t number, struct stream_kept *k)
{
    struct session *session = file->session;
    uint64_t is = atomic_load_explicit(&k->is, memory_order_relaxed);
    struct attach *a = session_attach(session, k->device);
    struct stream *s = slots_restore(&session->streams, number, stream_is_generation(is));
    struct context *c;

    if (!s || !a)
        return false;
    LL_SEARCH_SCALAR(a->contexts, c, number, k->context);
    s->session = session;
    s->attach = a;
    s->id = stream_is_id(is);
    if (!c || !slots_restore(&a->device->stream_ids, s->id, 0))
        return false;
    s->live = k;
    s->depth = session->ring_depth;
    s->ctrl = arena_stream_ctrl(file->map, number);
    s->ring = arena_stream_ring(file->map, number, s->depth);
    reset_engine_part(s);
    user_charge_again(&session->charge_streams, session->user, RESOURCE_STREAMS, 1, false);
    context_join(s, c);
    a->streams++;
    return true;
}

bool streams_restore(struct server *server, struct kept_cell *cell)
{
    struct arena_file *file;
    struct stream_kept *k;

    if (!session_arena_file_restore(server, cell, KEPT_STREAMS, &file))
        return false;
    if (!file)
        return true;
    if (file->size != arena_stream_file_size(file->session->ring_depth))
        return false;
    k = arena_kept_at(file, 0);
    for (uint32_t i = 0; i < file->slots; i++)
        if (atomic_load_explicit(&k[i].is, memory_order_relaxed) != 0 &&
            !restore_stream(file, file->index * ARENA_STREAMS + i, &k[i]))
            return false;
    return true;
}

void stream_evict_waiters(struct session *session, struct waitlist *list, uint32_t object,
                          int32_t error)
{
    struct stream *s;

    /*
     * Mostly no stream waits there. A session that ends has no streams any more, but a table as
     * large as it ever was, and many objects to be freed.
     */
    if (session->streams.live == 0 || !waitlist_has_any(list))
        return;
    slots_foreach (&session->streams, i, s) {
        if (s->waiting_on != list || s->live->task.object != object ||
            !waitlist_remove(list, &s->waiter))
            continue;
        stream_let_go(s, error, 0);
        engine_unpark(s);
    }
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t streams_remaining(const struct session *session, const struct attach *attach)
{
    uint64_t limit = user_limit(session->user, RESOURCE_STREAMS);
    uint64_t used = user_used(session->user, RESOURCE_STREAMS);
    const struct slots *ids = &attach->device->stream_ids;
    uint64_t remaining = session->streams.max - session->streams.live;

    remaining = min_u64(remaining, used < limit ? limit - used : 0);
    return (uint32_t)min_u64(remaining, ids->max - ids->live);
}

/*
 * The stream's end: it is the client's number, and decides no more than where the client's own slot
 * goes on; one that cannot be is replaced by the furthest that can.
 */
uint64_t stream_ring_end(const struct stream *s)
{
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);

    return tail - s->live->position > s->depth ? s->live->position + s->depth : tail;
}

/* What is queued up to `tail` is over without having been executed; done does not tell yet. */
void stream_drop_queue(struct stream *s, uint64_t tail)
{
    engine_forget(s->attach->device->engine, s);
    if (tail != s->live->position)
        s->attach->spurious = 0; /* it rang for these */
    engine_drop_task(s);
    stream_forget_task(s);
    engine_leave_graph(s);
    s->live->position = tail;
    atomic_store(&s->ctrl->watched, 0);
}

void stream_free(struct stream *s)
{
    struct session *session = s->session;
    struct attach *a = s->attach;

    /* All engines of the session, because those of other devices may be about to park a stream on
     * this one. */
    session_lock(session);
    slots_unpublish(s);
    stream_drop_queue(s, stream_ring_end(s));
    if (!session->halted)
        stream_publish(s, s->live->position);
    waitlist_fire(&s->passed, 0, UINT64_MAX, 0, 0);
    waitlist_deinit(&s->passed);
    context_leave(s);
    kept_set(&s->live->is, 0);
    session_unlock(session);
    KILL_HERE(STREAM_FREED);
    a->streams--;
    give_resources_back(s);
}
