#include "daemon/admin/blocker.h"

#include <utlist.h>

#include "daemon/admin/wait_graph.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/ipc_event.h"

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
    g->live[wait_graph_node(g, b)] = true;
    return 0;
}

static int resolve_position(struct wait_graph *g, struct blocked *b)
{
    struct stream *s = slots_get(&b->session->streams, b->object);

    if (!s || atomic_load_explicit(&s->done, memory_order_relaxed) >= b->target) {
        g->live[wait_graph_node(g, b)] = true;
        return 0;
    }
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

    if (!open) {
        g->live[wait_graph_node(g, b)] = true;
        return 0;
    }
    b->blocker = open->session;
    p = wait_graph_process(g, open->session);
    queued = scan_queued(g, p);
    record = queued_find(queued, TASK_IPC_RECORD, open->slot.number, b->target, &n);
    if (n > 0)
        return depend_on_stream(g, b, p, record->stream);
    if (!queued->complete)
        g->live[wait_graph_node(g, b)] = true;
    return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_process_node(g, p), false);
}

/* Any record that is queued will do, and so will a new one by any thread of the process. */
static int resolve_level(struct wait_graph *g, struct blocked *b)
{
    struct wait_process *p = wait_graph_process(g, b->session);
    const struct queued *queued = scan_queued(g, p);
    size_t n;
    const struct queued_record *record =
        queued_find(queued, TASK_RECORD, b->object, QUEUED_ANY, &n);
    int r = 0;

    b->blocker = b->session;
    if (!queued->complete)
        g->live[wait_graph_node(g, b)] = true;
    for (size_t i = 0; i < n && r == 0; i++)
        if (record[i].generation == b->generation)
            r = depend_on_stream(g, b, p, record[i].stream);
    return r < 0 ? r
                 : wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_process_node(g, p),
                                       b->blocker_stream >= 0);
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
        return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_process_node(g, p), false);
    for (size_t t = 0; t < p->n_threads; t++) {
        const struct blocked *thread = &g->blocked[p->first_thread + t];

        if (thread->thread == b->blocker_thread && thread->on != ON_REPORT)
            return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_node(g, thread), false);
    }
    g->live[wait_graph_node(g, b)] = true; /* it is awake, or about to be */
    return 0;
}

/* Any thread of its process may launch a callback, and any of its streams may get to one. */
static int resolve_report(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->session;
    return wait_graph_add_edge(g, wait_graph_node(g, b),
                               wait_graph_process_node(g, wait_graph_process(g, b->session)),
                               false);
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
    g->live[wait_graph_node(g, b)] = true;
    return 0;
}

static int resolve_notify_open(struct wait_graph *g, struct blocked *b,
                               const struct notify_open *open)
{
    struct wait_process *p = wait_graph_process(g, open->session);
    const struct queued *queued = scan_queued(g, p);
    size_t n;
    const struct queued_record *record =
        queued_find(queued, open->notify->counts ? TASK_COUNT_RECORD : TASK_NOTIFY_RECORD,
                    open->slot.number, QUEUED_ANY, &n);
    bool is_queued = false;
    int r = 0;

    if (!queued->complete)
        g->live[wait_graph_node(g, b)] = true;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (record[i].generation != slot_generation(open))
            continue;
        if (b->blocker_stream < 0)
            b->blocker = open->session;
        is_queued = true;
        r = depend_on_stream(g, b, p, record[i].stream);
    }
    return r < 0 ? r
                 : wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_process_node(g, p),
                                       is_queued);
}

/*
 * Any record by any session that has it open; and while it can be imported, by processes that have
 * not.
 */
static int resolve_notify(struct wait_graph *g, struct blocked *b)
{
    const struct notify_open *mine = slots_get(&b->session->notifies, b->object), *open;
    const struct notify *n;
    int r = 0;

    if (!mine) {
        g->live[wait_graph_node(g, b)] = true;
        return 0;
    }
    n = mine->notify;
    b->blocker = b->session;
    DL_FOREACH (n->opens, open)
        if (b->blocker == b->session)
            b->blocker = open->session;
    DL_FOREACH (n->opens, open)
        if (r == 0)
            r = resolve_notify_open(g, b, open);
    if (r == 0 && n->exported && n->creator)
        r = wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_outside(g), true);
    return r;
}

/*
 * Any task that writes the word may do, queued or not, and so may any thread that writes it itself.
 */
static int resolve_value(struct wait_graph *g, struct blocked *b)
{
    struct wait_process *p = wait_graph_process(g, b->session);
    const struct queued *queued = scan_queued(g, p);
    size_t n;
    const struct queued_record *record =
        queued_find(queued, TASK_VALUE_WRITE, b->object, QUEUED_ANY, &n);
    int r = 0;

    b->blocker = b->session;
    if (!queued->complete)
        g->live[wait_graph_node(g, b)] = true;
    for (size_t i = 0; i < n && r == 0; i++)
        if (record[i].generation == b->generation &&
            record[i].number < b->target + sizeof(b->value) &&
            (record[i].number >= b->target || b->target - record[i].number < record[i].size))
            r = depend_on_stream(g, b, p, record[i].stream);
    return r < 0 ? r
                 : wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_process_node(g, p),
                                       b->blocker_stream >= 0);
}

/* A process that could do it: any of its threads. */
static int add_peer(struct wait_graph *g, struct blocked *b, struct session *peer)
{
    b->blockers++;
    if (!b->blocker || b->blocker == b->session)
        b->blocker = peer;
    return wait_graph_add_edge(g, wait_graph_node(g, b),
                               wait_graph_process_node(g, wait_graph_process(g, peer)), false);
}

/*
 * All sessions with the right on the other side, and the processes that are granted it and have not
 * attached.
 */
static int resolve_queue_side(struct wait_graph *g, struct blocked *b, uint32_t right)
{
    struct queue *queue = queue_by_number(g->server, b->object);
    struct queue_attach *attach = queue ? queue_attached(b->session, queue->id) : NULL;
    struct grant *grant;
    uint32_t fill;
    int r = 0;

    if (!attach || attach->queue != queue) {
        g->live[wait_graph_node(g, b)] = true; /* the ring has ended: it has been woken */
        return 0;
    }
    fill = queue_fill(&queue->ring.view);
    if (right == QUEUE_PUT ? fill > 0 || queue->routes_to > 0
                           : fill < queue->ring.view.depth || queue->routes_from > 0)
        g->live[wait_graph_node(g, b)] = true;
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

/* All sessions that manage a queue with that id. */
static int resolve_grant(struct wait_graph *g, struct blocked *b)
{
    struct queue_attach *attach;
    struct queue *queue = NULL;
    int r = 0;

    if (b->object < QUEUE_IDS)
        queue = g->server->queues->by_id[b->object];
    if (!queue || queue_attached(b->session, b->object))
        g->live[wait_graph_node(g, b)] = true;
    for (; queue; queue = queue->id_next)
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
