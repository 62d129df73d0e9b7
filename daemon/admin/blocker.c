#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/array.h"
#include "daemon/base/hash.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/memory/allocation.h"
#include "proto/util/clock.h"

#define RECORDS_LOOKS 8192 /* at queued tasks that may end a wait */
#define VALUE_EDGES   64   /* of tasks that write a word that is waited for */

/* --- what a node depends on --- */

/* It can end without any other. */
static int blocker_mark_live(struct wait_graph *g, uint32_t node)
{
    g->node[node].leaf = true;
    return 0;
}

/* It depends on the process of the session: any of its threads. 0 or -ENOMEM. */
static int blocker_add_process(struct wait_graph *g, uint32_t node, const struct session *session,
                               bool weak)
{
    struct wait_process *p = wait_graph_process(g, session);

    if (!p)
        return blocker_mark_live(g, node); /* it has just come */
    return wait_graph_add_edge(g, node, wait_graph_process_node(g, p), weak);
}

/*
 * It depends on stream `slot` of p, which goes on by itself if it is not blocked. *name:
 * that of the stream, unless there is one already. 0 or -ENOMEM.
 */
static int blocker_add_stream(struct wait_graph *g, uint32_t node, struct wait_process *p,
                              uint32_t slot, struct stream_name *name)
{
    struct stream *s = p->session ? slots_get(&p->session->streams, slot) : NULL;
    struct blocked *other = wait_graph_stream(g, p, slot);

    if (name->id < 0 && s)
        *name = (struct stream_name){stream_id(s), s->attach->device->index};
    if (other)
        return wait_graph_add_edge(g, node, wait_graph_node(g, other), false);
    return blocker_mark_live(g, node);
}

/* --- groups --- */

static struct wait_group *find_group(struct wait_graph *g, const struct wait_group_key *key,
                                     const uint32_t *bucket)
{
    uint32_t at = *bucket;

    while (at != 0 && memcmp(&g->group[at - 1].key, key, sizeof(*key)) != 0)
        at = g->group[at - 1].same;
    return at != 0 ? &g->group[at - 1] : NULL;
}

static struct wait_group *make_group(struct wait_graph *g, const struct wait_group_key *key,
                                     uint32_t *bucket)
{
    struct wait_group *all = array_grow(g->group, &g->groups_size, g->n_groups + 1, sizeof(*all));
    struct wait_group *group;

    if (!all)
        return NULL;
    g->group = all;
    group = &g->group[g->n_groups];
    *group = (struct wait_group){.key = *key, .blocker_stream.id = -1, .same = *bucket};
    group->node = wait_graph_add_node(g);
    if (group->node == 0)
        return NULL;
    *bucket = (uint32_t)++g->n_groups;
    return group;
}

/*
 * All waits with this key depend on the same: it is looked for once, by fill(), and each of them
 * leads there. 0 or -ENOMEM.
 */
static int group_join(struct wait_graph *g, struct blocked *b, const struct wait_group_key *key,
                      wait_fill_fn *fill)
{
    uint32_t *bucket = &g->group_bucket[hash_key(key, sizeof(*key)) & (g->n_buckets - 1)];
    struct wait_group *group = find_group(g, key, bucket);

    if (!group) {
        group = make_group(g, key, bucket);
        if (!group)
            return -ENOMEM;
        group->fill = fill;
        group->sample = wait_graph_node(g, b);
    }
    b->group = (uint32_t)(group - g->group) + 1;
    return wait_graph_add_edge(g, wait_graph_node(g, b), group->node, false);
}

static void add_blocker(struct wait_group *group, struct wait_process *p)
{
    if (!group->blocker)
        group->blocker = p;
    else if (!group->other && p != group->blocker)
        group->other = p;
}

/* The session of the waits, or, if they may be of several, of one of them. NULL: it has gone. */
static struct session *session_of(const struct wait_graph *g, const struct wait_group *group)
{
    return g->blocked[group->sample].process->session;
}

/* --- what is queued --- */

/* False: to be continued. A session that has gone has nothing queued, and that is not complete. */
static bool scan_queued(struct wait_graph *g, struct wait_process *p)
{
    if (!p->scanned)
        p->scanned = !p->session || queued_scan(&p->queued, p->session, &g->budget, g->until);
    return p->scanned;
}

static int group_fill_record(struct wait_graph *g, struct wait_group *group)
{
    struct wait_process *p = wait_graph_process_of(g, group->key.session);
    const struct queued_record *record;

    if (!scan_queued(g, p))
        return 1;
    if (!p->session)
        return blocker_mark_live(g, group->node);
    group->blocker = p;
    record = queued_next(&p->queued, TASK_IPC_RECORD, (uint32_t)group->key.object,
                         group->key.target, NULL);
    if (record)
        return blocker_add_stream(g, group->node, p, record->stream, &group->blocker_stream);
    if (!p->queued.complete)
        blocker_mark_live(g, group->node);
    return blocker_add_process(g, group->node, p->session, false);
}

/*
 * Any record of the object that is queued in rings of the session will do, and so will a new one by
 * any thread of its process. Where thousands are queued, not all are looked at: then it is not said
 * that the wait cannot end. The session was scanned.
 */
static int depend_on_records(struct wait_graph *g, struct wait_group *group, struct wait_process *p,
                             unsigned op, uint32_t object, uint32_t generation)
{
    const struct queued_record *record = NULL;
    bool is_queued = false;
    unsigned looks = 0;
    int r = 0;

    while (r == 0 && looks < RECORDS_LOOKS &&
           (record = queued_next(&p->queued, op, object, QUEUED_ANY, record))) {
        looks++;
        if (record->generation != generation)
            continue;
        if (group->blocker_stream.id < 0) {
            group->blocker = p;
            group->other = NULL;
        }
        is_queued = true;
        r = blocker_add_stream(g, group->node, p, record->stream, &group->blocker_stream);
    }
    if (!p->queued.complete || looks == RECORDS_LOOKS)
        blocker_mark_live(g, group->node);
    if (r < 0 || !p->session)
        return r < 0 ? r : blocker_mark_live(g, group->node);
    return blocker_add_process(g, group->node, p->session, is_queued);
}

static int group_fill_level(struct wait_graph *g, struct wait_group *group)
{
    struct wait_process *p = g->blocked[group->sample].process;

    if (!scan_queued(g, p))
        return 1;
    group->blocker = p;
    return depend_on_records(g, group, p, TASK_RECORD, (uint32_t)group->key.object,
                             group->key.generation);
}

/* Of the tasks that write memory: does this one write the word? */
static bool writes_word(const struct queued_record *record, uint64_t target)
{
    return record->number < target + sizeof(uint64_t) &&
           (record->number >= target || target - record->number < record->size);
}

/*
 * Any task of the session that writes the word may do, queued or not, and so may any thread that
 * writes it itself. As depend_on_records(), if thousands of tasks write to the allocation. 1: to be
 * continued; 0, or -ENOMEM.
 */
static int add_writer(struct wait_graph *g, struct wait_group *group, const struct mem *m)
{
    struct wait_process *p = wait_graph_process(g, m->session);
    const struct queued_record *record = NULL;
    unsigned looks = 0, edges = 0;
    int r = 0;

    if (!p)
        return blocker_mark_live(g, group->node);
    if (!scan_queued(g, p))
        return 1;
    if (group->blocker_stream.id < 0)
        add_blocker(group, p);
    while (
        r == 0 && looks < RECORDS_LOOKS && edges < VALUE_EDGES &&
        (record = queued_next(&p->queued, TASK_VALUE_WRITE, m->slot.number, QUEUED_ANY, record))) {
        looks++;
        if (record->generation != slot_generation(m) || !writes_word(record, group->key.target))
            continue;
        if (group->blocker_stream.id < 0) {
            group->blocker = p;
            group->other = NULL;
        }
        edges++;
        r = blocker_add_stream(g, group->node, p, record->stream, &group->blocker_stream);
    }
    if (record || !p->queued.complete)
        blocker_mark_live(g, group->node);
    return r < 0 ? r : blocker_add_process(g, group->node, m->session, edges > 0);
}

/*
 * Any session that has the memory, by each of its names; and while it can be imported, processes
 * that have not. If sessions come or go meanwhile, it is not said that the waits cannot end.
 */
static int group_fill_value(struct wait_graph *g, struct wait_group *group)
{
    struct session *session = session_of(g, group);
    struct mem *mine = session ? allocation_get(session, (uint32_t)group->key.object,
                                                group->key.generation)
                               : NULL,
               *m;
    bool exported = false;
    uint32_t i = 0;
    int r;

    if (mine && group->filled == 0)
        group->changes = mine->pages->changes;
    if (!mine || group->changes != mine->pages->changes)
        return blocker_mark_live(g, group->node);
    DL_FOREACH (mine->pages->holders, m) {
        exported |= m->exports != NULL;
        if (i++ < group->filled)
            continue;
        r = add_writer(g, group, m);
        if (r != 0)
            return r;
        group->filled++;
        if (waits_slice_over(g))
            return 1;
    }
    return exported ? wait_graph_add_edge(g, group->node, wait_graph_outside(g), true) : 0;
}

/* --- notifies --- */

/* The records of one session that has it open. 1: to be continued; 0, or -ENOMEM. */
static int add_opener(struct wait_graph *g, struct wait_group *group,
                      const struct notify_open *open)
{
    struct wait_process *p = wait_graph_process(g, open->session);
    unsigned op = open->notify->counts ? TASK_COUNT_RECORD : TASK_NOTIFY_RECORD;

    if (!p)
        return blocker_mark_live(g, group->node);
    if (!scan_queued(g, p))
        return 1;
    if (group->blocker_stream.id < 0)
        add_blocker(group, p);
    return depend_on_records(g, group, p, op, open->slot.number, slot_generation(open));
}

/*
 * Any record by any session that has it open; and while it can be imported, by processes that have
 * not. If sessions open or close it meanwhile, it is not said that the waits cannot end.
 */
static int group_fill_notify(struct wait_graph *g, struct wait_group *group)
{
    const struct blocked *b = &g->blocked[group->sample];
    struct session *session = session_of(g, group);
    struct notify_open *mine =
        session ? slots_get_generation(&session->notifies, b->object, b->generation) : NULL;
    const struct notify *n = mine ? mine->notify : NULL;
    const struct notify_open *open;
    uint32_t i = 0;
    int r = 0;

    if (n && group->filled == 0)
        group->changes = n->openings;
    if (!n || n->number != group->key.object || group->changes != n->openings)
        return blocker_mark_live(g, group->node);
    DL_FOREACH (n->opens, open) {
        if (i++ < group->filled)
            continue;
        r = add_opener(g, group, open);
        if (r != 0)
            return r;
        group->filled++;
        if (waits_slice_over(g))
            return 1;
    }
    if (n->exported && n->creator)
        r = wait_graph_add_edge(g, group->node, wait_graph_outside(g), true);
    return r;
}

/* --- callbacks, queues --- */

/* The thread that runs the callbacks of the stream: stuck if it sleeps for something else. */
static int group_fill_callback(struct wait_graph *g, struct wait_group *group)
{
    struct wait_process *p = g->blocked[group->sample].process;

    group->blocker = p;
    for (size_t t = 0; t < p->n_threads; t++) {
        const struct blocked *thread = &g->blocked[p->first_thread + t];

        if (thread->thread == group->key.object && thread->on != ON_CALLBACK_WORD)
            return wait_graph_add_edge(g, group->node, wait_graph_node(g, thread), false);
    }
    return blocker_mark_live(g, group->node); /* it is awake, or about to be */
}

/* A process that could do it: any of its threads. */
static int add_peer(struct wait_graph *g, struct wait_group *group, const struct session *peer)
{
    struct wait_process *p = wait_graph_process(g, peer);

    group->blockers++;
    if (p)
        add_blocker(group, p);
    return blocker_add_process(g, group->node, peer, false);
}

static int add_peers(struct wait_graph *g, struct wait_group *group, struct queue *queue,
                     uint32_t right)
{
    struct queue_attach *attach;
    int r = 0;

    DL_FOREACH2 (queue->attached, attach, qnext)
        if (r == 0 && attach->rights & right && queue_attach_counts(attach))
            r = add_peer(g, group, attach->peer->session);
    return r;
}

/*
 * All sessions with the right on the other side, and the processes that are granted it and have not
 * attached.
 */
static int group_fill_queue_side(struct wait_graph *g, struct wait_group *group)
{
    struct queue *queue = queue_by_number(g->server, (uint32_t)group->key.object);
    uint32_t right = group->key.what == ON_MESSAGE ? QUEUE_PUT : QUEUE_TAKE;
    uint32_t fill = queue ? queue_fill(&queue->ring.view) : 0;
    struct grant *grant;
    int r;

    if (!queue)
        return blocker_mark_live(g, group->node);
    if (right == QUEUE_PUT ? fill > 0 || queue->routes_to > 0
                           : fill < queue->ring.view.depth || queue->routes_from > 0)
        blocker_mark_live(g, group->node);
    r = add_peers(g, group, queue, right);
    DL_FOREACH (queue->grants, grant)
        if (r == 0 && grant->rights & right)
            r = wait_graph_add_edge(g, group->node, wait_graph_outside(g), true);
    return r;
}

static int group_fill_grant(struct wait_graph *g, struct wait_group *group)
{
    struct session *session = session_of(g, group);
    struct queue *queue =
        session ? queue_of_user(session->user, (uint32_t)group->key.object) : NULL;

    return queue ? add_peers(g, group, queue, QUEUE_MANAGE) : blocker_mark_live(g, group->node);
}

/* --- all --- */

int groups_fill(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_groups) {
        struct wait_group *group = &g->group[g->at];
        int r = group->fill(g, group);

        if (r != 0)
            return r;
        g->at++;
        if (clock_ns() >= g->until)
            return 1;
    }
    return 0;
}

static void tell_blocker(struct blocked *b, const struct wait_group *group)
{
    b->blocker = group->blocker == b->process && group->other ? group->other : group->blocker;
    b->blocker_stream = group->blocker_stream;
    b->blockers = b->on == ON_NOTIFY ? 0 : group->blockers;
}

/* Each wait of a group is told what blocks it. */
int groups_tell(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_blocked) {
        struct blocked *b = &g->blocked[g->at++];

        if (b->group != 0)
            tell_blocker(b, &g->group[b->group - 1]);
        if (waits_slice_over(g))
            return 1;
    }
    return 0;
}

/* --- each kind; the session of the wait is there --- */

static int resolve_position(struct wait_graph *g, struct blocked *b)
{
    struct stream *s = slots_get(&b->process->session->streams, b->object);

    if (!s || atomic_load_explicit(&s->live->done, memory_order_relaxed) >= b->target)
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

/*
 * A thread that npud does not know yet may be any of the process. No deadlock while one is awake
 * outside of the library: it may be that one, which only has to come.
 */
static int resolve_callback(struct wait_graph *g, struct blocked *b)
{
    const struct wait_group_key key = {
        .session = b->process->id, .object = b->blocker_thread, .what = ON_CALLBACK};

    b->blocker = b->process;
    if (b->blocker_thread == 0 && wait_graph_other_threads(b->process) != 0)
        return blocker_mark_live(g, wait_graph_node(g, b));
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
static int resolve_callback_word(struct wait_graph *g, struct blocked *b)
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
        [ON_POSITION] = resolve_position,
        [ON_RECORD] = resolve_record,
        [ON_LEVEL] = resolve_level,
        [ON_CALLBACK] = resolve_callback,
        [ON_CALLBACK_WORD] = resolve_callback_word,
        [ON_RULE] = resolve_rule,
        [ON_NOTIFY] = resolve_notify,
        [ON_VALUE] = resolve_value,
        [ON_MESSAGE] = resolve_queue_side,
        [ON_ROOM] = resolve_queue_side,
        [ON_GRANT] = resolve_grant,
        [ON_EXCEPTIONS] = resolve_exceptions,
        [ON_WORK] = resolve_work,
        [ON_HOST_VALUE] = resolve_work,
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

        if (b->on != ON_CALLBACK_WORD)
            r = wait_graph_add_edge(g, wait_graph_process_node(g, p), wait_graph_node(g, b), false);
    }
    for (size_t s = 0; p->runs_callbacks && s < p->n_streams && r == 0; s++)
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
