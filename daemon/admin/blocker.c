#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/buffers/grant.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/ipc_event.h"

#define VALUE_LOOKS 4096 /* at queued tasks that may write a word that is waited for */
#define VALUE_EDGES 64   /* of these, tasks that do */

/* --- what a node depends on --- */

/* It can end without any other. */
static int mark_live(struct wait_graph *g, uint32_t node)
{
    g->node[node].leaf = true;
    return 0;
}

/* It depends on the process of the session: any of its threads. */
static int depend_on_process(struct wait_graph *g, uint32_t node, const struct session *session,
                             bool weak)
{
    return wait_graph_add_edge(g, node, wait_graph_process_node(g, wait_graph_process(g, session)),
                               weak);
}

/*
 * It depends on stream `slot` of p, which goes on by itself if it is not blocked. *id: of the
 * stream, unless there is one already.
 */
static int depend_on_stream(struct wait_graph *g, uint32_t node, struct wait_process *p,
                            uint32_t slot, int32_t *id)
{
    struct stream *s = slots_get(&p->session->streams, slot);
    struct blocked *other = wait_graph_stream(g, p, slot);

    if (*id < 0 && s)
        *id = stream_id(s);
    if (other)
        return wait_graph_add_edge(g, node, wait_graph_node(g, other), false);
    return mark_live(g, node);
}

/* --- what many depend on --- */

static struct wait_group *group_make(struct wait_graph *g, const struct wait_group_key *key)
{
    struct wait_group *group = calloc(1, sizeof(*group));

    if (!group)
        return NULL;
    group->key = *key;
    group->blocker_stream = -1;
    group->node = wait_graph_add_node(g);
    if (group->node != 0)
        HASH_ADD(hh, g->groups, key, sizeof(group->key), group);
    if (group->node == 0 || !group->hh.tbl) {
        free(group);
        return NULL;
    }
    group->next = g->latest;
    g->latest = group;
    return group;
}

typedef int fill_fn(struct wait_graph *g, struct wait_group *group, const struct blocked *b);

/*
 * All waits with this key depend on the same: it is looked for once, and each of them leads there.
 */
static int depend_on_group(struct wait_graph *g, struct blocked *b,
                           const struct wait_group_key *key, fill_fn *fill)
{
    struct wait_group *group;
    int r = 0;

    HASH_FIND(hh, g->groups, key, sizeof(*key), group);
    if (!group) {
        group = group_make(g, key);
        r = group ? fill(g, group, b) : -ENOMEM;
    }
    if (r < 0)
        return r;
    b->blocker = group->blocker == b->session && group->other ? group->other : group->blocker;
    b->blocker_stream = group->blocker_stream;
    b->blockers = group->blockers;
    return wait_graph_add_edge(g, wait_graph_node(g, b), group->node, false);
}

static void add_blocker(struct wait_group *group, struct session *session)
{
    if (!group->blocker)
        group->blocker = session;
    else if (!group->other && session != group->blocker)
        group->other = session;
}

/* --- each kind --- */

static int resolve_position(struct wait_graph *g, struct blocked *b)
{
    struct stream *s = slots_get(&b->session->streams, b->object);

    if (!s || atomic_load_explicit(&s->done, memory_order_relaxed) >= b->target)
        return mark_live(g, wait_graph_node(g, b));
    b->blocker = b->session;
    return depend_on_stream(g, wait_graph_node(g, b), wait_graph_process(g, b->session), b->object,
                            &b->blocker_stream);
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
    uint32_t node = wait_graph_node(g, b);
    struct ipc_open *open = find_recorder(b);
    const struct queued_record *record;
    const struct queued *queued;
    struct wait_process *p;
    size_t n;

    if (!open)
        return mark_live(g, node);
    b->blocker = open->session;
    p = wait_graph_process(g, open->session);
    queued = scan_queued(g, p);
    record = queued_find(queued, TASK_IPC_RECORD, open->slot.number, b->target, &n);
    if (n > 0)
        return depend_on_stream(g, node, p, record->stream, &b->blocker_stream);
    if (!queued->complete)
        mark_live(g, node);
    return depend_on_process(g, node, open->session, false);
}

/* Of the tasks that write memory: does this one write the word? */
static bool writes_word(const struct queued_record *record, uint64_t target)
{
    return record->number < target + sizeof(uint64_t) &&
           (record->number >= target || target - record->number < record->size);
}

/*
 * Any record of the object that is queued in rings of the session will do, and so will a new one by
 * any thread of its process.
 */
static int depend_on_records(struct wait_graph *g, struct wait_group *group,
                             struct session *session, unsigned op, uint32_t object,
                             uint32_t generation)
{
    struct wait_process *p = wait_graph_process(g, session);
    const struct queued *queued = scan_queued(g, p);
    size_t n;
    const struct queued_record *record = queued_find(queued, op, object, QUEUED_ANY, &n);
    bool is_queued = false;
    int r = 0;

    if (!queued->complete)
        mark_live(g, group->node);
    for (size_t i = 0; i < n && r == 0; i++) {
        if (record[i].generation != generation)
            continue;
        if (group->blocker_stream < 0) {
            group->blocker = session;
            group->other = NULL;
        }
        is_queued = true;
        r = depend_on_stream(g, group->node, p, record[i].stream, &group->blocker_stream);
    }
    return r < 0 ? r : depend_on_process(g, group->node, session, is_queued);
}

static int fill_level(struct wait_graph *g, struct wait_group *group, const struct blocked *b)
{
    group->blocker = b->session;
    return depend_on_records(g, group, b->session, TASK_RECORD, b->object, b->generation);
}

static int resolve_level(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {.session = b->session->id,
                                       .object = b->object,
                                       .generation = b->generation,
                                       .what = ON_LEVEL};

    return depend_on_group(g, b, &key, fill_level);
}

/*
 * Any task that writes the word may do, queued or not, and so may any thread that writes it itself.
 * Where thousands of tasks are queued that write to the allocation, not all are looked at: then it
 * is not said that the wait cannot end.
 */
static int fill_value(struct wait_graph *g, struct wait_group *group, const struct blocked *b)
{
    struct wait_process *p = wait_graph_process(g, b->session);
    const struct queued *queued = scan_queued(g, p);
    size_t n, edges = 0, i;
    const struct queued_record *record =
        queued_find(queued, TASK_VALUE_WRITE, b->object, QUEUED_ANY, &n);
    int r = 0;

    group->blocker = b->session;
    for (i = 0; i < n && i < VALUE_LOOKS && edges < VALUE_EDGES && r == 0; i++) {
        if (record[i].generation != b->generation || !writes_word(&record[i], b->target))
            continue;
        edges++;
        r = depend_on_stream(g, group->node, p, record[i].stream, &group->blocker_stream);
    }
    if (i < n || !queued->complete)
        mark_live(g, group->node);
    return r < 0 ? r : depend_on_process(g, group->node, b->session, edges > 0);
}

static int resolve_value(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {.session = b->session->id,
                                       .object = b->object,
                                       .target = b->target,
                                       .generation = b->generation,
                                       .what = ON_VALUE};

    return depend_on_group(g, b, &key, fill_value);
}

/* The thread that runs the callbacks of the stream: stuck if it sleeps for something else. */
static int fill_callback(struct wait_graph *g, struct wait_group *group, const struct blocked *b)
{
    struct wait_process *p = wait_graph_process(g, b->session);

    group->blocker = b->session;
    for (size_t t = 0; t < p->n_threads; t++) {
        const struct blocked *thread = &g->blocked[p->first_thread + t];

        if (thread->thread == b->blocker_thread && thread->on != ON_REPORT)
            return wait_graph_add_edge(g, group->node, wait_graph_node(g, thread), false);
    }
    return mark_live(g, group->node); /* it is awake, or about to be */
}

/* A thread that npud does not know yet may be any of the process. */
static int resolve_callback(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {
        .session = b->session->id, .object = b->blocker_thread, .what = ON_CALLBACK};

    b->blocker = b->session;
    if (b->blocker_thread == 0)
        return depend_on_process(g, wait_graph_node(g, b), b->session, false);
    return depend_on_group(g, b, &key, fill_callback);
}

/* Any thread of its process may launch a callback, and any of its streams may get to one. */
static int resolve_report(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->session;
    return depend_on_process(g, wait_graph_node(g, b), b->session, false);
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
    return mark_live(g, wait_graph_node(g, b));
}

/*
 * Any record by any session that has it open; and while it can be imported, by processes that have
 * not.
 */
static int fill_notify(struct wait_graph *g, struct wait_group *group, const struct blocked *b)
{
    const struct notify_open *mine = slots_get(&b->session->notifies, b->object), *open;
    const struct notify *n = mine->notify;
    unsigned op = n->counts ? TASK_COUNT_RECORD : TASK_NOTIFY_RECORD;
    int r = 0;

    DL_FOREACH (n->opens, open)
        add_blocker(group, open->session);
    DL_FOREACH (n->opens, open)
        if (r == 0)
            r = depend_on_records(g, group, open->session, op, open->slot.number,
                                  slot_generation(open));
    if (r == 0 && n->exported && n->creator)
        r = wait_graph_add_edge(g, group->node, wait_graph_outside(g), true);
    return r;
}

static int resolve_notify(struct wait_graph *g, struct blocked *b)
{
    const struct notify_open *mine = slots_get(&b->session->notifies, b->object);
    struct wait_group_key key = {.what = ON_NOTIFY};
    int r;

    if (!mine)
        return mark_live(g, wait_graph_node(g, b));
    key.object = mine->notify->number;
    r = depend_on_group(g, b, &key, fill_notify);
    b->blockers = 0;
    return r;
}

/* A process that could do it: any of its threads. */
static int add_peer(struct wait_graph *g, struct wait_group *group, struct session *peer)
{
    group->blockers++;
    add_blocker(group, peer);
    return depend_on_process(g, group->node, peer, false);
}

static int add_peers(struct wait_graph *g, struct wait_group *group, struct queue *queue,
                     uint32_t right)
{
    struct queue_attach *attach;
    int r = 0;

    DL_FOREACH2 (queue->attached, attach, qnext)
        if (r == 0 && attach->rights & right && !attach->leaving)
            r = add_peer(g, group, attach->peer->session);
    return r;
}

/*
 * All sessions with the right on the other side, and the processes that are granted it and have not
 * attached.
 */
static int fill_queue_side(struct wait_graph *g, struct wait_group *group, const struct blocked *b)
{
    struct queue *queue = queue_by_number(g->server, b->object);
    uint32_t right = b->on == ON_MESSAGE ? QUEUE_PUT : QUEUE_TAKE;
    uint32_t fill = queue_fill(&queue->ring.view);
    struct grant *grant;
    int r;

    if (right == QUEUE_PUT ? fill > 0 || queue->routes_to > 0
                           : fill < queue->ring.view.depth || queue->routes_from > 0)
        mark_live(g, group->node);
    r = add_peers(g, group, queue, right);
    DL_FOREACH (queue->grants, grant)
        if (r == 0 && grant->rights & right)
            r = wait_graph_add_edge(g, group->node, wait_graph_outside(g), true);
    return r;
}

static int resolve_queue_side(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {.object = b->object, .what = b->on};
    struct queue *queue = queue_by_number(g->server, b->object);

    if (!queue_attachment(b->session, queue))
        return mark_live(g, wait_graph_node(g, b)); /* the ring has ended: it has been woken */
    return depend_on_group(g, b, &key, fill_queue_side);
}

static int fill_grant(struct wait_graph *g, struct wait_group *group, const struct blocked *b)
{
    return add_peers(g, group, queue_of_user(b->session->user, b->object), QUEUE_MANAGE);
}

/*
 * All sessions that manage the queue. Those of another user's queue, which may not exist, are
 * nothing that a process without a grant is told.
 */
static int resolve_grant(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {
        .object = b->object, .target = b->session->uid, .what = ON_GRANT};
    bool own = b->target == 0 || b->target - 1 == b->session->uid;
    struct queue *queue;

    if (!own)
        return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_outside(g), true);
    queue = b->object < QUEUE_IDS ? queue_of_user(b->session->user, b->object) : NULL;
    if (!queue || queue_attachment(b->session, queue))
        return mark_live(g, wait_graph_node(g, b));
    return depend_on_group(g, b, &key, fill_grant);
}

typedef int resolve_fn(struct wait_graph *g, struct blocked *b);

int blockers_find(struct wait_graph *g)
{
    static resolve_fn *const resolvers[] = {
        [ON_POSITION] = resolve_position,  [ON_RECORD] = resolve_record,
        [ON_LEVEL] = resolve_level,        [ON_CALLBACK] = resolve_callback,
        [ON_REPORT] = resolve_report,      [ON_RULE] = resolve_rule,
        [ON_NOTIFY] = resolve_notify,      [ON_VALUE] = resolve_value,
        [ON_MESSAGE] = resolve_queue_side, [ON_ROOM] = resolve_queue_side,
        [ON_GRANT] = resolve_grant,
    };
    int r = 0;

    for (size_t i = 0; i < g->n_blocked && r == 0; i++) {
        struct blocked *b = &g->blocked[i];

        g->node[i].leaf = b->timed;
        r = resolvers[b->on](g, b);
    }
    for (size_t i = 0; i < g->n_processes && r == 0; i++)
        r = resolve_process(g, &g->process[i]);
    return r;
}
