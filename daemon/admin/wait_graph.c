#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "daemon/core/device.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/execute.h"
#include "daemon/buffers/grant.h"
#include "daemon/engine/inject.h"
#include "daemon/core/notify.h"
#include "daemon/buffers/queue.h"
#include "daemon/admin/queued.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"

#define DESCRIBED_MAX 32           /* members of a deadlock that are spelt out */
#define SUSPECT_NS    NSEC_PER_SEC /* a circle that somebody outside could end is no news before */

/*
 * The graph. Nodes are what is blocked (streams, then threads) and, after them, one per session:
 * its process, for what has not been submitted and can come from any of its threads. A node can go
 * on if any node that it leads to can: so what is stuck is what cannot reach a live node. And one
 * node for whoever may yet come.
 */
struct wait_process {
    struct session *session;
    size_t first_stream, n_streams; /* in blocked[] */
    size_t first_thread, n_threads;
    bool reports; /* one of them waits for callbacks */
    bool busy;    /* a stream has something to do */
    struct queued queued;
    bool scanned;
};

struct wait_edge {
    uint32_t from, to;
    /*
     * to the process, beside a record that is queued, or to those outside: counts for certainty
     * only
     */
    bool weak;
};

struct wait_graph {
    struct server *server;
    struct blocked *blocked; /* streams first, then threads */
    size_t n_blocked, blocked_size;
    struct deadlock *deadlock;
    size_t n_deadlocks;
    size_t n_streams;
    struct wait_process *process;
    size_t n_processes;
    /* by `from` while made, and in this order again for deadlocks; by `to` in between */
    struct wait_edge *edge;
    size_t n_edges, edges_size;
    bool *live; /* per node */
    uint32_t *next;
    uint32_t *mark;
    size_t budget; /* ring entries that may still be looked at */
};

/*
 * The last node: processes that have not come yet. They can end any wait that is open to them, but
 * nobody may count on them.
 */
static uint32_t wait_graph_outside(const struct wait_graph *g)
{
    return (uint32_t)(g->n_blocked + g->n_processes);
}

static size_t wait_graph_nodes(const struct wait_graph *g)
{
    return g->n_blocked + g->n_processes + 1;
}

/* --- what is blocked --- */

static int add_blocked(struct wait_graph *g, const struct blocked *b)
{
    if (g->n_blocked == g->blocked_size) {
        size_t bigger = g->blocked_size ? 2 * g->blocked_size : 256;
        struct blocked *p = reallocarray(g->blocked, bigger, sizeof(*p));

        if (!p)
            return -ENOMEM;
        g->blocked = p;
        g->blocked_size = bigger;
    }
    g->blocked[g->n_blocked++] = *b;
    return 0;
}

static bool blocked_of_callback(const struct stream *s, struct blocked *b)
{
    uint32_t report = s->task.callback.report;

    *b = (struct blocked){
        .session = s->session,
        .stream = stream_id(s),
        .slot = s->slot.number,
        .since_ns = s->parked_since,
        .on = ON_CALLBACK,
        .object = report,
        .target = s->callback,
        .blocker_stream = -1,
        .blocker_thread =
            atomic_load_explicit(&s->session->page->report[report].thread, memory_order_relaxed),
    };
    return !task_callback_done(s);
}

bool blocked_of_stream(const struct stream *s, struct blocked *b)
{
    static const enum wait_on on[TASK_OPS] = {
        [TASK_WAIT_LEVEL] = ON_LEVEL,   [TASK_WAIT_POS] = ON_POSITION, [TASK_IPC_WAIT] = ON_RECORD,
        [TASK_NOTIFY_WAIT] = ON_NOTIFY, [TASK_COUNT_WAIT] = ON_NOTIFY, [TASK_VALUE_WAIT] = ON_VALUE,
    };
    const struct inject_rule *rule = inject_holder(&s->session->server->inject, s->waiting_on);
    const struct task *t = &s->task;
    bool ipc = t->op == TASK_IPC_WAIT;
    bool notify = t->op == TASK_NOTIFY_WAIT || t->op == TASK_COUNT_WAIT;
    uint64_t timeout_ns = notify ? t->notify.timeout_ns
                          : ipc  ? t->ipc.timeout_ns
                                 : t->wait.timeout_ns;

    if (s->run == RUN_PARKED && s->callback != 0)
        return blocked_of_callback(s, b);
    /* Without a list it waits for the clock; off the list it is about to go on. */
    if (s->run != RUN_PARKED || !s->waiting_on || !waitlist_has(s->waiting_on, &s->waiter))
        return false;
    if (rule) {
        *b = (struct blocked){
            .session = s->session,
            .stream = stream_id(s),
            .slot = s->slot.number,
            .since_ns = s->parked_since,
            .on = ON_RULE,
            .target = rule->id,
            .blocker_stream = -1,
        };
        return true;
    }
    *b = (struct blocked){
        .session = s->session,
        .stream = stream_id(s),
        .slot = s->slot.number,
        .since_ns = s->parked_since,
        .timed = timeout_ns != 0,
        .on = on[t->op],
        .object = t->object,
        .generation = t->generation,
        .target = notify ? 0
                  : ipc  ? t->ipc.number
                         : t->wait.target,
        .blocker_stream = -1,
    };
    if (b->on == ON_VALUE) {
        b->timed = false;
        b->target = t->value.offset;
        b->value = t->value.value;
        b->condition = t->flags;
    }
    return true;
}

static int collect_streams(struct wait_graph *g, struct wait_process *p)
{
    struct blocked b;
    struct stream *s;
    int r = 0;

    p->first_stream = g->n_blocked;
    slots_foreach (&p->session->streams, i, s) {
        if (r == 0 && blocked_of_stream(s, &b))
            r = add_blocked(g, &b);
        else
            p->busy |= atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed) != s->head;
    }
    p->n_streams = g->n_blocked - p->first_stream;
    return r;
}

static bool blocked_of_thread(struct session *session, uint32_t slot, struct blocked *b)
{
    static const enum wait_on on[] = {
        [WAIT_POSITION] = ON_POSITION, [WAIT_RECORD] = ON_RECORD, [WAIT_CALLBACK] = ON_REPORT,
        [WAIT_MESSAGE] = ON_MESSAGE,   [WAIT_ROOM] = ON_ROOM,     [WAIT_GRANT] = ON_GRANT,
    };
    struct wait_info info;
    uint32_t kind;

    if (!wait_slot_read(&session->page->waits[slot], &info))
        return false;
    kind = info.what & WAIT_KIND_MASK;
    if (kind == 0 || kind >= sizeof(on) / sizeof(on[0]))
        return false;
    *b = (struct blocked){
        .session = session,
        .stream = -1,
        .slot = slot,
        .thread = info.thread,
        .since_ns = info.since_ns,
        .timed = info.what & WAIT_TIMED,
        .on = on[kind],
        .object = info.object,
        .target = info.target,
        .blocker_stream = -1,
    };
    memcpy(b->call, info.call, sizeof(b->call));
    return true;
}

static int collect_threads(struct wait_graph *g, struct wait_process *p)
{
    uint32_t used = 0;
    struct blocked b;
    int r = 0;

    p->first_thread = g->n_blocked;
    if (p->session->page)
        used = atomic_load_explicit(&p->session->page->waits_used, memory_order_relaxed);
    for (uint32_t i = 0; i < used && i < WAIT_SLOTS && r == 0; i++)
        if (blocked_of_thread(p->session, i, &b)) {
            p->reports |= b.on == ON_REPORT;
            r = add_blocked(g, &b);
        }
    p->n_threads = g->n_blocked - p->first_thread;
    return r;
}

static void wait_graph_lock_engines(struct server *server)
{
    for (uint32_t i = 0; i < server->devices.n; i++)
        engine_lock(server->devices.device[i].engine);
}

static void wait_graph_unlock_engines(struct server *server)
{
    for (uint32_t i = server->devices.n; i-- > 0;)
        engine_unlock(server->devices.device[i].engine);
}

/*
 * All streams at one moment, then the threads. What is found to be a deadlock is looked at again:
 * see is_still_there().
 */
static int wait_graph_collect(struct wait_graph *g)
{
    struct session *session;
    int r = 0;

    g->process = calloc(g->server->n_sessions + 1, sizeof(*g->process));
    if (!g->process)
        return -ENOMEM;
    DL_FOREACH (g->server->sessions, session)
        g->process[g->n_processes++].session = session;
    wait_graph_lock_engines(g->server);
    for (size_t i = 0; i < g->n_processes && r == 0; i++)
        r = collect_streams(g, &g->process[i]);
    wait_graph_unlock_engines(g->server);
    g->n_streams = g->n_blocked;
    for (size_t i = 0; i < g->n_processes && r == 0; i++)
        r = collect_threads(g, &g->process[i]);
    return r;
}

/* --- who owes it --- */

static int compare_session(const void *key, const void *member)
{
    uint64_t a = *(const uint64_t *)key, b = ((const struct wait_process *)member)->session->id;

    return a < b ? -1 : a > b;
}

/* Sessions are numbered in the order in which they come, and the list is in that order. */
static struct wait_process *wait_graph_process(struct wait_graph *g, const struct session *session)
{
    return bsearch(&session->id, g->process, g->n_processes, sizeof(*g->process), compare_session);
}

static uint32_t wait_graph_process_node(struct wait_graph *g, const struct wait_process *p)
{
    return (uint32_t)(g->n_blocked + (size_t)(p - g->process));
}

static int compare_slot(const void *key, const void *member)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct blocked *)member)->slot;

    return a < b ? -1 : a > b;
}

/* The blocked stream of that slot, or NULL when it is not blocked. */
static struct blocked *wait_graph_stream(struct wait_graph *g, struct wait_process *p,
                                         uint32_t slot)
{
    return bsearch(&slot, g->blocked + p->first_stream, p->n_streams, sizeof(struct blocked),
                   compare_slot);
}

static int wait_graph_add_edge(struct wait_graph *g, uint32_t from, uint32_t to, bool weak)
{
    if (g->n_edges == g->edges_size) {
        size_t bigger = g->edges_size ? 2 * g->edges_size : 256;
        struct wait_edge *p = reallocarray(g->edge, bigger, sizeof(*p));

        if (!p)
            return -ENOMEM;
        g->edge = p;
        g->edges_size = bigger;
    }
    g->edge[g->n_edges++] = (struct wait_edge){.from = from, .to = to, .weak = weak};
    return 0;
}

static uint32_t wait_graph_node(const struct wait_graph *g, const struct blocked *b)
{
    return (uint32_t)(b - g->blocked);
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
 * Who has recorded it, or NULL: it is not pending, or somebody has written nonsense into the page.
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

/* No deadlock: somebody outside can end it. */
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
 * Any record by anybody who has it open; and while it can be imported, by processes that have not.
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

/* One who could do it: any of his threads. */
static int add_peer(struct wait_graph *g, struct blocked *b, struct session *peer)
{
    b->blockers++;
    if (!b->blocker || b->blocker == b->session)
        b->blocker = peer;
    return wait_graph_add_edge(g, wait_graph_node(g, b),
                               wait_graph_process_node(g, wait_graph_process(g, peer)), false);
}

/*
 * Everybody with the right on the other side, those included who are granted it and have not come.
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

/* Whoever manages a queue with that id. */
static int resolve_grant(struct wait_graph *g, struct blocked *b)
{
    struct queue_attach *attach;
    struct queue *queue = NULL;
    int r = 0;

    if (b->object < QUEUE_IDS)
        queue = g->server->queues.by_id[b->object];
    if (!queue || queue_attached(b->session, b->object))
        g->live[wait_graph_node(g, b)] = true;
    for (; queue; queue = queue->id_next)
        DL_FOREACH2 (queue->attached, attach, qnext)
            if (r == 0 && attach->rights & QUEUE_MANAGE && !attach->leaving)
                r = add_peer(g, b, attach->peer->session);
    return r;
}

static int blockers_find(struct wait_graph *g)
{
    static int (*const resolvers[])(struct wait_graph * g, struct blocked * b) = {
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

/* --- what is stuck --- */

/* Threads of the process that are not asleep in the library; -1: npud may not look. */
static long other_threads(const struct wait_process *p)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)p->session->pid);
    if (stat(path, &st) < 0 || st.st_nlink < 2)
        return -1;
    return (long)st.st_nlink - 2 - LIBRARY_THREADS - (long)p->n_threads;
}

static int compare_by_to(const void *a, const void *b)
{
    uint32_t x = ((const struct wait_edge *)a)->to, y = ((const struct wait_edge *)b)->to;

    return x < y ? -1 : x > y;
}

static int compare_by_from(const void *a, const void *b)
{
    const struct wait_edge *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* qsort() may not be called without a table. */
static void sort_edges(struct wait_graph *g, int (*compare)(const void *, const void *))
{
    if (g->n_edges > 0)
        qsort(g->edge, g->n_edges, sizeof(*g->edge), compare);
}

static size_t first_edge(const struct wait_graph *g, uint32_t node, bool to)
{
    size_t low = 0, high = g->n_edges;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if ((to ? g->edge[mid].to : g->edge[mid].from) < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* All that leads to something live is live. next serves as the list of what is to be looked at. */
static void spread_life(struct wait_graph *g, bool certain)
{
    size_t todo = 0;

    sort_edges(g, compare_by_to);
    for (uint32_t i = 0; i < wait_graph_nodes(g); i++)
        if (g->live[i])
            g->next[todo++] = i;
    while (todo > 0) {
        uint32_t node = g->next[--todo];

        for (size_t e = first_edge(g, node, true); e < g->n_edges && g->edge[e].to == node; e++) {
            uint32_t from = g->edge[e].from;

            if (g->live[from] || (g->edge[e].weak && !certain))
                continue;
            g->live[from] = true;
            g->next[todo++] = from;
        }
    }
    sort_edges(g, compare_by_from);
}

/* --- deadlocks --- */

#define NOWHERE UINT32_MAX

/* One that cannot go on either, of those that it leads to. */
static uint32_t stuck_successor(const struct wait_graph *g, uint32_t node, bool certain)
{
    for (size_t e = first_edge(g, node, false); e < g->n_edges && g->edge[e].from == node; e++)
        if (!g->live[g->edge[e].to] && (certain || !g->edge[e].weak))
            return g->edge[e].to;
    return NOWHERE;
}

/* Is the thread or stream where it was? Under the locks of all engines. */
static bool still_blocked(const struct blocked *b)
{
    struct blocked now;
    struct stream *s = slots_get(&b->session->streams, b->slot);

    if (b->stream < 0 ? !blocked_of_thread(b->session, b->slot, &now)
                      : !s || !blocked_of_stream(s, &now))
        return false;
    return now.since_ns == b->since_ns && now.target == b->target;
}

/*
 * Streams and threads were looked at one after the other, so what looks like a circle may never
 * have been one. If all its members are now where they were then, all of them were there at the
 * moment in between, and it was.
 */
static bool is_still_there(struct wait_graph *g, const struct deadlock *d)
{
    bool there = true;

    wait_graph_lock_engines(g->server);
    for (size_t i = 0; i < d->n && there; i++)
        there = still_blocked(d->member[i]);
    wait_graph_unlock_engines(g->server);
    return there;
}

static bool is_old_enough(const struct deadlock *d)
{
    uint64_t latest = clock_ns() - (d->certain ? 0 : SUSPECT_NS);

    for (size_t i = 0; i < d->n; i++)
        if (d->member[i]->since_ns > latest)
            return false;
    return true;
}

static uint32_t count_processes(const struct deadlock *d)
{
    uint32_t n = 0;

    for (size_t i = 0; i < d->n; i++) {
        bool seen = false;

        for (size_t k = 0; k < i && !seen; k++)
            seen = d->member[k]->session == d->member[i]->session;
        n += !seen;
    }
    return n;
}

static int deadlock_add(struct wait_graph *g, uint32_t start, bool certain)
{
    struct deadlock *all = reallocarray(g->deadlock, g->n_deadlocks + 1, sizeof(*all));
    struct deadlock d = {.certain = certain};
    uint32_t node = start;

    if (!all)
        return -ENOMEM;
    g->deadlock = all;
    do {
        d.n += node < g->n_blocked;
        node = g->next[node];
    } while (node != start);
    d.member = calloc(d.n + 1, sizeof(const struct blocked *));
    if (!d.member)
        return -ENOMEM;
    d.n = 0;
    do {
        if (node < g->n_blocked)
            d.member[d.n++] = &g->blocked[node];
        node = g->next[node];
    } while (node != start);
    if (!is_old_enough(&d) || !is_still_there(g, &d)) {
        free(d.member);
        return 0;
    }
    d.processes = count_processes(&d);
    g->deadlock[g->n_deadlocks++] = d;
    for (size_t i = 0; i < d.n; i++) {
        g->blocked[wait_graph_node(g, d.member[i])].deadlock = (uint32_t)g->n_deadlocks;
        g->blocked[wait_graph_node(g, d.member[i])].member = true;
    }
    return 0;
}

/*
 * From every stuck node one way on: each way ends in a circle. mark: 1 + the walk that came by.
 */
static int find_circles(struct wait_graph *g, bool certain)
{
    memset(g->mark, 0, wait_graph_nodes(g) * sizeof(*g->mark));
    for (uint32_t i = 0; i < wait_graph_nodes(g); i++)
        g->next[i] = g->live[i] ? NOWHERE : stuck_successor(g, i, certain);
    for (uint32_t i = 0; i < g->n_blocked; i++) {
        uint32_t node = i;

        while (node != NOWHERE && g->mark[node] == 0) {
            g->mark[node] = i + 1;
            node = g->next[node];
        }
        /* Back on this walk's own track: a circle, unless it was known. */
        if (node == NOWHERE || g->mark[node] != i + 1)
            continue;
        while (node >= g->n_blocked)
            node = g->next[node];
        if (g->blocked[node].deadlock == 0 && deadlock_add(g, node, certain) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Who only leads to a circle waits behind it. mark: nodes of one walk, which all end alike. */
static void find_followers(struct wait_graph *g)
{
    struct blocked *blocked = g->blocked;

    for (uint32_t i = 0; i < g->n_blocked; i++) {
        uint32_t node = i, steps = 0, deadlock = 0;

        while (node != NOWHERE && deadlock == 0 && steps++ <= wait_graph_nodes(g)) {
            deadlock = node < g->n_blocked ? blocked[node].deadlock : 0;
            node = g->next[node];
        }
        for (node = i; deadlock != 0 && node != NOWHERE; node = g->next[node]) {
            if (node >= g->n_blocked)
                continue;
            if (blocked[node].deadlock != 0)
                break;
            blocked[node].deadlock = deadlock;
        }
    }
}

static int deadlocks_find(struct wait_graph *g, bool certain)
{
    for (size_t i = 0; i < g->n_processes; i++) {
        struct wait_process *p = &g->process[i];

        g->live[wait_graph_process_node(g, p)] =
            p->n_threads == 0 || (p->reports && p->busy) || (certain && other_threads(p) != 0);
    }
    g->live[wait_graph_outside(g)] = certain;
    spread_life(g, certain);
    if (find_circles(g, certain) < 0)
        return -ENOMEM;
    find_followers(g);
    return 0;
}

/* --- all of it --- */

static int analyse_graph(struct wait_graph *g)
{
    size_t n = wait_graph_nodes(g);
    bool *leaves;
    int r = -ENOMEM;

    g->live = calloc(2 * n + 1, sizeof(*g->live));
    g->next = calloc(n + 1, sizeof(*g->next));
    g->mark = calloc(n + 1, sizeof(*g->mark));
    if (!g->live || !g->next || !g->mark || blockers_find(g) < 0)
        return r;
    leaves = g->live + n;
    memcpy(leaves, g->live, n * sizeof(*leaves));
    r = deadlocks_find(g, true);
    memcpy(g->live, leaves, n * sizeof(*leaves));
    return r < 0 ? r : deadlocks_find(g, false);
}

int waits_init(struct waits *waits, struct server *server)
{
    struct wait_graph g = {.server = server, .budget = QUEUED_ENTRIES_MAX};
    int r;

    r = wait_graph_collect(&g);
    if (r == 0)
        r = analyse_graph(&g);
    for (size_t i = 0; i < g.n_processes; i++)
        queued_deinit(&g.process[i].queued);
    free(g.process);
    free(g.edge);
    free(g.live);
    free(g.next);
    free(g.mark);
    *waits = (struct waits){
        .blocked = g.blocked,
        .n = g.n_blocked,
        .deadlock = g.deadlock,
        .n_deadlocks = g.n_deadlocks,
    };
    return r;
}

void waits_deinit(struct waits *waits)
{
    for (size_t i = 0; i < waits->n_deadlocks; i++)
        free(waits->deadlock[i].member);
    free(waits->deadlock);
    free(waits->blocked);
    *waits = (struct waits){0};
}

/* --- in words --- */

void blocked_name(const struct blocked *b, char *buf, size_t size)
{
    if (b->stream >= 0)
        snprintf(buf, size, "stream %d", (int)b->stream);
    else
        snprintf(buf, size, "thread %u in %s", b->thread, b->call);
}

void blocked_describe(const struct blocked *b, char *buf, size_t size)
{
    static const char *const conditions[] = {">=", "==", "to have a bit of",
                                             "to lack a bit beside"};
    struct stream *s;
    struct ipc_open *open;
    struct notify_open *notify;
    struct queue *queue;

    switch (b->on) {
    case ON_POSITION:
        s = slots_get(&b->session->streams, b->object);
        snprintf(buf, size, "position %llu of stream %d", (unsigned long long)b->target,
                 s ? (int)stream_id(s) : -1);
        break;
    case ON_RECORD:
        open = slots_get(&b->session->ipc, b->object);
        snprintf(buf, size, "record %llu of IPC event %llu", (unsigned long long)b->target,
                 open ? (unsigned long long)open->event->id : 0);
        break;
    case ON_LEVEL:
        snprintf(buf, size, "a record of event %u", b->object);
        break;
    case ON_CALLBACK:
        snprintf(buf, size, "callback %llu to return", (unsigned long long)b->target);
        break;
    case ON_REPORT:
        snprintf(buf, size, "a callback to run");
        break;
    case ON_RULE:
        snprintf(buf, size, "rule %llu of npuctl inject", (unsigned long long)b->target);
        break;
    case ON_NOTIFY:
        notify = slots_get(&b->session->notifies, b->object);
        snprintf(buf, size, "%s %u of device %u",
                 notify && notify->notify->counts ? "count notify" : "notify",
                 notify ? notify->notify->id->slot.number : 0,
                 notify ? notify->notify->device->index : 0);
        break;
    case ON_VALUE:
        snprintf(buf, size, "word %llu of allocation %u %s %llu",
                 (unsigned long long)b->target / sizeof(b->value), b->object,
                 conditions[b->condition & 3], (unsigned long long)b->value);
        break;
    case ON_MESSAGE:
    case ON_ROOM:
        queue = queue_by_number(b->session->server, b->object);
        snprintf(buf, size, "%s queue %d", b->on == ON_ROOM ? "room in" : "a message in",
                 queue ? (int)queue->id : -1);
        break;
    case ON_GRANT:
        snprintf(buf, size, "rights to queue %u", b->object);
        break;
    }
}

static void describe_peers(const struct blocked *b, char *buf, size_t size)
{
    const char *what = b->on == ON_MESSAGE ? "enqueue" : b->on == ON_ROOM ? "dequeue" : "grant";

    if (b->blockers == 1)
        snprintf(buf, size, "process %d may %s", (int)b->blocker->pid, what);
    else
        snprintf(buf, size, "process %d or %u more may %s", (int)b->blocker->pid, b->blockers - 1,
                 what);
}

void blocked_describe_blocker(const struct blocked *b, char *buf, size_t size)
{
    if (b->on == ON_RULE)
        snprintf(buf, size, "npuctl inject clear %llu", (unsigned long long)b->target);
    else if (!b->blocker)
        snprintf(buf, size, "nobody any more");
    else if (b->on == ON_MESSAGE || b->on == ON_ROOM || b->on == ON_GRANT)
        describe_peers(b, buf, size);
    else if (b->blocker_thread != 0)
        snprintf(buf, size, "process %d, thread %u", (int)b->blocker->pid, b->blocker_thread);
    else if (b->on == ON_CALLBACK)
        snprintf(buf, size, "process %d: no thread has come for it yet", (int)b->blocker->pid);
    else if (b->blocker_stream >= 0)
        snprintf(buf, size, "stream %d of process %d", (int)b->blocker_stream,
                 (int)b->blocker->pid);
    else
        snprintf(buf, size, "process %d: not submitted yet", (int)b->blocker->pid);
}

void deadlock_describe(const struct deadlock *d, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i <= d->n && used < size; i++) {
        const struct blocked *b = d->member[i % d->n];
        char name[WAIT_CALL + 32], what[64];

        if (i == DESCRIBED_MAX && d->n > DESCRIBED_MAX) {
            snprintf(buf + used, size - used, " -> %zu more", d->n - i);
            return;
        }
        blocked_name(b, name, sizeof(name));
        blocked_describe(b, what, sizeof(what));
        used += (size_t)snprintf(buf + used, size - used, "%sprocess %d (%s) %s", i ? " -> " : "",
                                 (int)b->session->pid, b->session->program, name);
        if (i < d->n && used < size)
            used += (size_t)snprintf(buf + used, size - used, " waits for %s", what);
    }
}
