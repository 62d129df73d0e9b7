#include "daemon/admin/wait_graph.h"

#include <utlist.h>

#include "daemon/buffers/grant.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/ipc_event.h"

/* It can end without any other. */
static int mark_live(struct wait_graph *g, const struct blocked *b)
{
    g->live[wait_graph_node(g, b)] = true;
    return 0;
}

/* It depends on the process of the session: any of its threads. */
static int depend_on_process(struct wait_graph *g, const struct blocked *b,
                             const struct session *session, bool weak)
{
    return wait_graph_add_edge(g, wait_graph_node(g, b),
                               wait_graph_process_node(g, wait_graph_process(g, session)), weak);
}

/* It depends on stream `slot` of p, which goes on by itself if it is not blocked. */
static int depend_on_stream(struct wait_graph *g, struct blocked *b, struct wait_process *p,
                            uint32_t slot)
{
    struct stream *s = slots_get(&p->session->streams, slot);
    struct blocked *other = wait_graph_stream(g, p, slot);

    if (b->blocker_stream < 0 && s)
        b->blocker_stream = stream_id(s);
    if (other)
        return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_node(g, other), false);
    return mark_live(g, b);
}

static int resolve_position(struct wait_graph *g, struct blocked *b)
{
    struct stream *s = slots_get(&b->session->streams, b->object);

    if (!s || atomic_load_explicit(&s->done, memory_order_relaxed) >= b->target)
        return mark_live(g, b);
    b->blocker = b->session;
    return depend_on_stream(g, b, wait_graph_process(g, b->session), b->object);
}

/*
 * The session that has recorded it, or NULL: it is not pending, or a hostile peer has written
 * nonsense into the page.
 */
static struct ipc_open *find_recorder(struct blocked *b)
{
    struct ipc_open *open = slots_get(&b->session->ipc, b->object);
    struct ipc_opener *opener;
    uint64_t slot;

    if (!open || ipc_state_of(open->event->page, b->target) != IPC_PENDING)
        return NULL;
    slot =
        atomic_load_explicit(&open->event->page->slot[b->target % IPC_SLOTS], memory_order_relaxed);
    opener = slots_get(&open->event->openers, ipc_slot_opener(slot));
    return opener ? opener->open : NULL;
}

static const struct queued *scan_queued(struct wait_graph *g, struct wait_process *p)
{
    if (!p->scanned)
        queued_init(&p->queued, p->session, &g->budget);
    p->scanned = true;
    return &p->queued;
}

static int resolve_record(struct wait_graph *g, struct blocked *b)
{
    struct ipc_open *open = find_recorder(b);
    const struct queued_record *record;
    const struct queued *queued;
    struct wait_process *p;
    size_t n;

    if (!open)
        return mark_live(g, b);
    b->blocker = open->session;
    p = wait_graph_process(g, open->session);
    queued = scan_queued(g, p);
    record = queued_find(queued, TASK_IPC_RECORD, open->slot.number, b->target, &n);
    if (n > 0)
        return depend_on_stream(g, b, p, record->stream);
    if (!queued->complete)
        mark_live(g, b);
    return depend_on_process(g, b, open->session, false);
}

/* Of the records that it may wait for: does this one end the wait? */
static bool completes_wait(const struct queued_record *record, const struct blocked *b)
{
    if (b->on != ON_VALUE)
        return true;
    return record->number < b->target + sizeof(b->value) &&
           (record->number >= b->target || b->target - record->number < record->size);
}

/*
 * Any record of the object that is queued in rings of the session will do, and so will a new one by
 * any thread of its process.
 */
static int depend_on_records(struct wait_graph *g, struct blocked *b, struct session *session,
                             unsigned op, uint32_t object, uint32_t generation)
{
    struct wait_process *p = wait_graph_process(g, session);
    const struct queued *queued = scan_queued(g, p);
    size_t n;
    const struct queued_record *record = queued_find(queued, op, object, QUEUED_ANY, &n);
    bool is_queued = false;
    int r = 0;

    if (!queued->complete)
        mark_live(g, b);
    for (size_t i = 0; i < n && r == 0; i++) {
        if (record[i].generation != generation || !completes_wait(&record[i], b))
            continue;
        if (b->blocker_stream < 0)
            b->blocker = session;
        is_queued = true;
        r = depend_on_stream(g, b, p, record[i].stream);
    }
    return r < 0 ? r : depend_on_process(g, b, session, is_queued);
}

static int resolve_level(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->session;
    return depend_on_records(g, b, b->session, TASK_RECORD, b->object, b->generation);
}

/*
 * Any task that writes the word may do, queued or not, and so may any thread that writes it itself.
 */
static int resolve_value(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->session;
    return depend_on_records(g, b, b->session, TASK_VALUE_WRITE, b->object, b->generation);
}

/*
 * The thread that runs the callbacks of the stream: stuck if it sleeps for something else. One that
 * npud does not know yet may be any of the process.
 */
static int resolve_callback(struct wait_graph *g, struct blocked *b)
{
    struct wait_process *p = wait_graph_process(g, b->session);

    b->blocker = b->session;
    if (b->blocker_thread == 0)
        return depend_on_process(g, b, b->session, false);
    for (size_t t = 0; t < p->n_threads; t++) {
        const struct blocked *thread = &g->blocked[p->first_thread + t];

        if (thread->thread == b->blocker_thread && thread->on != ON_REPORT)
            return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_node(g, thread), false);
    }
    return mark_live(g, b); /* it is awake, or about to be */
}

/* Any thread of its process may launch a callback, and any of its streams may get to one. */
static int resolve_report(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->session;
    return depend_on_process(g, b, b->session, false);
}

/*
 * A process can do what any of its threads does when it goes on. Threads that wait for callbacks do
 * so when any of its streams does: one edge per stream, and not for each of these threads as well.
 */
static int resolve_process(struct wait_graph *g, struct wait_process *p)
{
    int r = 0;

    for (size_t t = 0; t < p->n_threads && r == 0; t++) {
        const struct blocked *b = &g->blocked[p->first_thread + t];

        if (b->on != ON_REPORT)
            r = wait_graph_add_edge(g, wait_graph_process_node(g, p), wait_graph_node(g, b), false);
    }
    for (size_t s = 0; p->reports && s < p->n_streams && r == 0; s++)
        r = wait_graph_add_edge(g, wait_graph_process_node(g, p), (uint32_t)(p->first_stream + s),
                                false);
    return r;
}

/* No deadlock: an administrator can end it. */
static int resolve_rule(struct wait_graph *g, struct blocked *b)
{
    return mark_live(g, b);
}

/*
 * Any record by any session that has it open; and while it can be imported, by processes that have
 * not.
 */
static int resolve_notify(struct wait_graph *g, struct blocked *b)
{
    const struct notify_open *mine = slots_get(&b->session->notifies, b->object), *open;
    const struct notify *n;
    unsigned op;
    int r = 0;

    if (!mine)
        return mark_live(g, b);
    n = mine->notify;
    op = n->counts ? TASK_COUNT_RECORD : TASK_NOTIFY_RECORD;
    b->blocker = b->session;
    DL_FOREACH (n->opens, open)
        if (b->blocker == b->session)
            b->blocker = open->session;
    DL_FOREACH (n->opens, open)
        if (r == 0)
            r = depend_on_records(g, b, open->session, op, open->slot.number,
                                  slot_generation(open));
    if (r == 0 && n->exported && n->creator)
        r = wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_outside(g), true);
    return r;
}

/* A process that could do it: any of its threads. */
static int add_peer(struct wait_graph *g, struct blocked *b, struct session *peer)
{
    b->blockers++;
    if (!b->blocker || b->blocker == b->session)
        b->blocker = peer;
    return depend_on_process(g, b, peer, false);
}

/*
 * All sessions with the right on the other side, and the processes that are granted it and have not
 * attached.
 */
static int resolve_queue_side(struct wait_graph *g, struct blocked *b, uint32_t right)
{
    struct queue *queue = queue_by_number(g->server, b->object);
    struct queue_attach *attach = queue_attachment(b->session, queue);
    struct grant *grant;
    uint32_t fill;
    int r = 0;

    if (!attach)
        return mark_live(g, b); /* the ring has ended: it has been woken */
    fill = queue_fill(&queue->ring.view);
    if (right == QUEUE_PUT ? fill > 0 || queue->routes_to > 0
                           : fill < queue->ring.view.depth || queue->routes_from > 0)
        mark_live(g, b);
    DL_FOREACH2 (queue->attached, attach, qnext)
        if (r == 0 && attach->rights & right && !attach->leaving)
            r = add_peer(g, b, attach->peer->session);
    DL_FOREACH (queue->grants, grant)
        if (r == 0 && grant->rights & right)
            r = wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_outside(g), true);
    return r;
}

static int resolve_message(struct wait_graph *g, struct blocked *b)
{
    return resolve_queue_side(g, b, QUEUE_PUT);
}

static int resolve_room(struct wait_graph *g, struct blocked *b)
{
    return resolve_queue_side(g, b, QUEUE_TAKE);
}

/*
 * All sessions that manage the queue. Those of another user's queue, which may not exist, are
 * nothing that a process without a grant is told.
 */
static int resolve_grant(struct wait_graph *g, struct blocked *b)
{
    bool own = b->target == 0 || b->target - 1 == b->session->uid;
    struct queue_attach *attach;
    struct queue *queue;
    int r = 0;

    if (!own)
        return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_outside(g), true);
    queue = b->object < QUEUE_IDS ? queue_of_user(b->session->user, b->object) : NULL;
    if (!queue || queue_attachment(b->session, queue))
        return mark_live(g, b);
    DL_FOREACH2 (queue->attached, attach, qnext)
        if (r == 0 && attach->rights & QUEUE_MANAGE && !attach->leaving)
            r = add_peer(g, b, attach->peer->session);
    return r;
}

typedef int resolve_fn(struct wait_graph *g, struct blocked *b);

int blockers_find(struct wait_graph *g)
{
    static resolve_fn *const resolvers[] = {
        [ON_POSITION] = resolve_position, [ON_RECORD] = resolve_record,
        [ON_LEVEL] = resolve_level,       [ON_CALLBACK] = resolve_callback,
        [ON_REPORT] = resolve_report,     [ON_RULE] = resolve_rule,
        [ON_NOTIFY] = resolve_notify,     [ON_VALUE] = resolve_value,
        [ON_MESSAGE] = resolve_message,   [ON_ROOM] = resolve_room,
        [ON_GRANT] = resolve_grant,
    };
    int r = 0;

    for (size_t i = 0; i < g->n_blocked && r == 0; i++) {
        struct blocked *b = &g->blocked[i];

        g->live[i] = b->timed;
        r = resolvers[b->on](g, b);
    }
    for (size_t i = 0; i < g->n_processes && r == 0; i++)
        r = resolve_process(g, &g->process[i]);
    return r;
}
