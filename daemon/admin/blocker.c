#include "daemon/admin/wait_graph.h"

#include "daemon/buffers/queue.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"

/* --- what a node depends on --- */

int blocker_mark_live(struct wait_graph *g, uint32_t node)
{
    g->node[node].leaf = true;
    return 0;
}

int blocker_add_process(struct wait_graph *g, uint32_t node, const struct session *session,
                        bool weak)
{
    struct wait_process *p = wait_graph_process(g, session);

    if (!p)
        return blocker_mark_live(g, node); /* it has just come */
    return wait_graph_add_edge(g, node, wait_graph_process_node(g, p), weak);
}

int blocker_add_stream(struct wait_graph *g, uint32_t node, struct wait_process *p, uint32_t slot,
                       struct stream_name *name)
{
    struct stream *s = p->session ? slots_get(&p->session->streams, slot) : NULL;
    struct blocked *other = wait_graph_stream(g, p, slot);

    if (name->id < 0 && s)
        *name = (struct stream_name){stream_id(s), s->attach->device->index};
    if (other)
        return wait_graph_add_edge(g, node, wait_graph_node(g, other), false);
    return blocker_mark_live(g, node);
}

/* --- each kind; the session of the wait is there --- */

static int resolve_position(struct wait_graph *g, struct blocked *b)
{
    struct stream *s = slots_get(&b->process->session->streams, b->object);

    if (!s || atomic_load_explicit(&s->kept->done, memory_order_relaxed) >= b->target)
        return blocker_mark_live(g, wait_graph_node(g, b));
    b->blocker = b->process;
    return blocker_add_stream(g, wait_graph_node(g, b), b->process, b->object, &b->blocker_stream);
}

/*
 * The session that has recorded it, or NULL: it is not pending, or a hostile peer has written
 * nonsense into the page.
 */
static struct ipc_open *find_recorder(const struct blocked *b)
{
    struct ipc_open *open = slots_get(&b->process->session->ipc, b->object);
    struct ipc_opener *opener;
    uint64_t slot;

    if (!open || ipc_state_of(open->event->page, b->target) != IPC_PENDING)
        return NULL;
    slot =
        atomic_load_explicit(&open->event->page->slot[b->target % IPC_SLOTS], memory_order_relaxed);
    opener = slots_get(&open->event->openers, ipc_slot_opener(slot));
    return opener ? opener->open : NULL;
}

static int resolve_record(struct wait_graph *g, struct blocked *b)
{
    struct ipc_open *open = find_recorder(b);
    struct wait_group_key key = {.target = b->target, .what = ON_RECORD};

    if (!open || !wait_graph_process(g, open->session))
        return blocker_mark_live(g, wait_graph_node(g, b));
    key.session = open->session->id;
    key.object = open->slot.number;
    key.generation = slot_generation(open);
    return group_join(g, b, &key, group_fill_record);
}

static int resolve_level(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {.session = b->process->id,
                                       .object = b->object,
                                       .generation = b->generation,
                                       .what = ON_LEVEL};

    return group_join(g, b, &key, group_fill_level);
}

static int resolve_value(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {.session = b->process->id,
                                       .object = b->object,
                                       .target = b->target,
                                       .generation = b->generation,
                                       .what = ON_VALUE};

    return group_join(g, b, &key, group_fill_value);
}

/* A thread that npud does not know yet may be any of the process. */
static int resolve_callback(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {
        .session = b->process->id, .object = b->blocker_thread, .what = ON_CALLBACK};

    b->blocker = b->process;
    if (b->blocker_thread == 0)
        return blocker_add_process(g, wait_graph_node(g, b), b->process->session, false);
    return group_join(g, b, &key, group_fill_callback);
}

/* No deadlock: a callback of the process has not returned, or its thread has yet to come. */
static int resolve_exceptions(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->process;
    return blocker_mark_live(g, wait_graph_node(g, b));
}

/*
 * No deadlock: the library's thread executes tasks by itself, and a word of memory of the program
 * may be written by anything that has the memory.
 */
static int resolve_work(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->process;
    return blocker_mark_live(g, wait_graph_node(g, b));
}

/* Any thread of its process may launch a callback, and any of its streams may get to one. */
static int resolve_report(struct wait_graph *g, struct blocked *b)
{
    b->blocker = b->process;
    return blocker_add_process(g, wait_graph_node(g, b), b->process->session, false);
}

/* No deadlock: an administrator can end it. */
static int resolve_rule(struct wait_graph *g, struct blocked *b)
{
    return blocker_mark_live(g, wait_graph_node(g, b));
}

static int resolve_notify(struct wait_graph *g, struct blocked *b)
{
    const struct notify_open *mine = slots_get(&b->process->session->notifies, b->object);
    struct wait_group_key key = {.what = ON_NOTIFY};

    if (!mine)
        return blocker_mark_live(g, wait_graph_node(g, b));
    key.object = mine->notify->number;
    return group_join(g, b, &key, group_fill_notify);
}

static int resolve_queue_side(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {.object = b->object, .what = b->on};
    struct queue *queue = queue_by_number(g->server, b->object);

    if (!queue_attachment(b->process->session, queue))
        return blocker_mark_live(g, wait_graph_node(g, b)); /* the ring has ended: it was woken */
    return group_join(g, b, &key, group_fill_queue_side);
}

/*
 * All sessions that manage the queue. Those of another user's queue, which may not exist, are
 * nothing that a process without a grant is told.
 */
static int resolve_grant(struct wait_graph *g, struct blocked *b)
{
    struct session *session = b->process->session;
    const struct wait_group_key key = {
        .object = b->object, .target = session->uid, .what = ON_GRANT};
    bool own = b->target == 0 || b->target - 1 == session->uid;
    struct queue *queue;

    if (!own)
        return wait_graph_add_edge(g, wait_graph_node(g, b), wait_graph_outside(g), true);
    queue = b->object < QUEUE_IDS ? queue_of_user(session->user, b->object) : NULL;
    if (!queue || queue_attachment(session, queue))
        return blocker_mark_live(g, wait_graph_node(g, b));
    return group_join(g, b, &key, group_fill_grant);
}

typedef int resolve_fn(struct wait_graph *g, struct blocked *b);

int blockers_resolve(struct wait_graph *g, bool certain)
{
    static resolve_fn *const resolvers[] = {
        [ON_POSITION] = resolve_position,  [ON_RECORD] = resolve_record,
        [ON_LEVEL] = resolve_level,        [ON_CALLBACK] = resolve_callback,
        [ON_REPORT] = resolve_report,      [ON_RULE] = resolve_rule,
        [ON_NOTIFY] = resolve_notify,      [ON_VALUE] = resolve_value,
        [ON_MESSAGE] = resolve_queue_side, [ON_ROOM] = resolve_queue_side,
        [ON_GRANT] = resolve_grant,        [ON_EXCEPTIONS] = resolve_exceptions,
        [ON_WORK] = resolve_work,          [ON_HOST_VALUE] = resolve_work,
    };

    (void)certain;
    while (g->at < g->n_blocked) {
        struct blocked *b = &g->blocked[g->at];
        int r = 0;

        g->node[g->at++].leaf = b->timed || !b->process->session;
        if (b->process->session)
            r = resolvers[b->on](g, b);
        if (r < 0)
            return r;
        if (waits_slice_over(g))
            return 1;
    }
    return 0;
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

int blockers_resolve_processes(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_processes) {
        int r = resolve_process(g, &g->process[g->at++]);

        if (r < 0)
            return r;
        if (clock_ns() >= g->until)
            return 1;
    }
    return 0;
}
