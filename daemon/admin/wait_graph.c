#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "daemon/base/array.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"

#define NOWHERE          UINT32_MAX
#define LOOKS_PER_TIME   32           /* small pieces of work before the clock is looked at */
#define STREAMS_PER_LOCK 64           /* that are looked at while the engines are kept out */
#define DESCRIBED_MAX    32           /* members of a deadlock that are spelt out */
#define LOOKS_PER_LOCK   64           /* while the engines are kept out */
#define SUSPECT_NS       NSEC_PER_SEC /* a circle that another thread could end is no news before */

/* --- processes --- */

/* The table of processes, with all sessions that there are. 0 or -ENOMEM. */
static int list_processes(struct wait_graph *g)
{
    struct session *session;

    g->process = calloc(g->server->n_sessions + 1, sizeof(*g->process));
    if (!g->process)
        return -ENOMEM;
    DL_FOREACH (g->server->sessions, session) {
        struct wait_process *p = &g->process[g->n_processes++];

        p->session = session;
        p->id = session->id;
        p->pid = session->pid;
        p->uid = session->uid;
        memcpy(p->program, session->program, sizeof(p->program));
    }
    g->sessions_gone = g->server->sessions_gone;
    return 0;
}

/*
 * Sessions that have gone since the last slice have gone from the table. They are numbered in the
 * order in which they come, and the list is in that order.
 */
static void find_gone(struct wait_graph *g)
{
    const struct session *session = g->server->sessions;

    if (g->sessions_gone == g->server->sessions_gone)
        return;
    g->sessions_gone = g->server->sessions_gone;
    for (size_t i = 0; i < g->n_processes; i++) {
        while (session && session->id < g->process[i].id)
            session = session->next;
        if (!session || session->id != g->process[i].id)
            g->process[i].session = NULL;
    }
}

/* --- collecting --- */

static int add_blocked(struct wait_graph *g, const struct blocked *b)
{
    struct blocked *all = array_grow(g->blocked, &g->blocked_size, g->n_blocked + 1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    g->blocked = all;
    g->blocked[g->n_blocked++] = *b;
    return 0;
}

/* Some streams of the process, from g->slot on. *over: these were the last. */
static int collect_some(struct wait_graph *g, struct wait_process *p, bool *over)
{
    struct stream *s = NULL;
    struct blocked b;
    int r = 0;

    engines_lock(g->server);
    for (unsigned n = 0; n < STREAMS_PER_LOCK && r == 0; n++) {
        s = slots_next(&p->session->streams, &g->slot);
        if (!s)
            break;
        if (blocked_of_stream(s, &b)) {
            b.process = p;
            r = add_blocked(g, &b);
        } else {
            p->busy |=
                atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed) != s->live->position;
        }
    }
    engines_unlock(g->server);
    *over = !s;
    return r;
}

/* Of the streams of a halted session none waits. */
static int collect_all_streams(struct wait_graph *g, bool certain)
{
    (void)certain;
    for (; g->at < g->n_processes; g->at++) {
        struct wait_process *p = &g->process[g->at];
        bool over = false;
        int r = 0;

        if (g->slot == 0)
            p->first_stream = g->n_blocked;
        while (r == 0 && !over && p->session && !p->session->halted) {
            r = collect_some(g, p, &over);
            if (r == 0 && !over && clock_ns() >= g->until)
                return 1;
        }
        p->n_streams = g->n_blocked - p->first_stream;
        g->slot = 0;
        if (r < 0)
            return r;
        if (clock_ns() >= g->until) {
            g->at++;
            return 1;
        }
    }
    return 0;
}

static int collect_threads(struct wait_graph *g, struct wait_process *p)
{
    struct session *session = p->session;
    uint32_t used = 0;
    struct blocked b;
    int r = 0;

    p->first_thread = g->n_blocked;
    if (session && session->page)
        used = atomic_load_explicit(&session->page->waits_used, memory_order_relaxed);
    for (uint32_t i = 0; i < used && i < WAIT_SLOTS && r == 0; i++)
        if (blocked_of_thread(session, i, &b)) {
            bool idle = blocked_is_idle(&b);

            /* npud-copy runs nothing of the program, which could do more than its task. */
            p->runs_callbacks |= b.on == ON_CALLBACK_WORD && b.object != CALLBACK_WORD_WORK;
            p->n_idle += idle;
            b.process = p;
            r = idle ? 0 : add_blocked(g, &b);
        }
    p->n_threads = g->n_blocked - p->first_thread;
    return r;
}

static int collect_all_threads(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_processes) {
        int r = collect_threads(g, &g->process[g->at++]);

        if (r < 0)
            return r;
        if (clock_ns() >= g->until)
            return 1;
    }
    return 0;
}

/* --- nodes and edges --- */

uint32_t wait_graph_outside(const struct wait_graph *g)
{
    return (uint32_t)(g->n_blocked + g->n_processes);
}

/* The nodes of what is blocked, of processes, and of those outside; and the table of groups. */
static int make_nodes(struct wait_graph *g, bool certain)
{
    size_t own = g->n_blocked + g->n_processes + 1, n = 64;

    (void)certain;
    while (!g->group_bucket && n < g->n_blocked)
        n *= 2;
    if (!g->group_bucket) {
        g->group_bucket = calloc(n, sizeof(*g->group_bucket));
        g->n_buckets = n;
    }
    if (!g->group_bucket)
        return -ENOMEM;
    while (g->n_nodes < own) {
        if (wait_graph_add_node(g) != g->n_nodes - 1)
            return -ENOMEM;
        if (waits_slice_over(g))
            return 1;
    }
    return 0;
}

uint32_t wait_graph_add_node(struct wait_graph *g)
{
    struct wait_node *all = array_grow(g->node, &g->nodes_size, g->n_nodes + 1, sizeof(*all));

    if (!all)
        return 0;
    g->node = all;
    g->node[g->n_nodes] = (struct wait_node){0};
    return (uint32_t)g->n_nodes++;
}

static int compare_session(const void *key, const void *member)
{
    uint64_t a = *(const uint64_t *)key, b = ((const struct wait_process *)member)->id;

    return a < b ? -1 : a > b;
}

struct wait_process *wait_graph_process_of(struct wait_graph *g, uint64_t id)
{
    return bsearch(&id, g->process, g->n_processes, sizeof(*g->process), compare_session);
}

struct wait_process *wait_graph_process(struct wait_graph *g, const struct session *session)
{
    return wait_graph_process_of(g, session->id);
}

uint32_t wait_graph_process_node(struct wait_graph *g, const struct wait_process *p)
{
    return (uint32_t)(g->n_blocked + (size_t)(p - g->process));
}

static int compare_slot(const void *key, const void *member)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct blocked *)member)->slot;

    return a < b ? -1 : a > b;
}

struct blocked *wait_graph_stream(struct wait_graph *g, struct wait_process *p, uint32_t slot)
{
    return bsearch(&slot, g->blocked + p->first_stream, p->n_streams, sizeof(struct blocked),
                   compare_slot);
}

int wait_graph_add_edge(struct wait_graph *g, uint32_t from, uint32_t to, bool weak)
{
    struct wait_edge *all = array_grow(g->edge, &g->edges_size, g->n_edges + 1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    g->edge = all;
    g->edge[g->n_edges++] = (struct wait_edge){.from = from,
                                               .to = to,
                                               .next_out = g->node[from].out,
                                               .next_in = g->node[to].in,
                                               .weak = weak};
    g->node[from].out = g->node[to].in = (uint32_t)g->n_edges;
    return 0;
}

uint32_t wait_graph_node(const struct wait_graph *g, const struct blocked *b)
{
    return (uint32_t)(b - g->blocked);
}

/* --- what is stuck --- */

/* Those of its library, as it says: a client that lies does so about itself. */
static long library_threads(const struct wait_process *p)
{
    const struct session_page *page = p->session ? p->session->page : NULL;
    uint32_t more = page ? atomic_load_explicit(&page->library_threads, memory_order_relaxed) : 0;

    return LIBRARY_THREADS + (more < CALLBACK_WORDS ? (long)more : 0);
}

long wait_graph_other_threads(const struct wait_process *p)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)p->pid);
    if (stat(path, &st) < 0 || st.st_nlink < 2)
        return -1;
    return (long)st.st_nlink - 2 - library_threads(p) - (long)p->n_threads - (long)p->n_idle;
}

/* Which processes can go on, whatever becomes of the waits. */
static int deadlocks_begin(struct wait_graph *g, bool certain)
{
    while (g->at < g->n_processes) {
        struct wait_process *p = &g->process[g->at++];

        g->node[wait_graph_process_node(g, p)].leaf = !p->session || p->n_threads == 0 ||
                                                      (p->runs_callbacks && p->busy) ||
                                                      (certain && wait_graph_other_threads(p) != 0);
        if (clock_ns() >= g->until)
            return 1;
    }
    g->node[wait_graph_outside(g)].leaf = certain;
    g->n_todo = 0;
    g->edge_at = 0;
    if (!g->todo)
        g->todo = calloc(g->n_nodes, sizeof(*g->todo));
    return g->todo ? 0 : -ENOMEM;
}

static void make_live(struct wait_graph *g, uint32_t node)
{
    g->node[node].live = true;
    g->todo[g->n_todo++] = node;
}

static int deadlocks_begin_nodes(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_nodes) {
        uint32_t node = (uint32_t)g->at++;

        g->node[node].live = false;
        if (g->node[node].leaf)
            make_live(g, node);
        if (waits_slice_over(g))
            return 1;
    }
    return 0;
}

/* All that leads to something live is live. */
static int deadlocks_spread_life(struct wait_graph *g, bool certain)
{
    for (;;) {
        while (g->edge_at != 0) {
            const struct wait_edge *edge = &g->edge[g->edge_at - 1];

            if (!g->node[edge->from].live && (!edge->weak || certain))
                make_live(g, edge->from);
            g->edge_at = edge->next_in;
            if (waits_slice_over(g))
                return 1;
        }
        if (g->n_todo == 0)
            return 0;
        g->edge_at = g->node[g->todo[--g->n_todo]].in;
        if (waits_slice_over(g))
            return 1;
    }
}

/* Is the thread or stream where it was? Under the locks of all engines. */
static bool still_blocked(const struct blocked *b)
{
    struct session *session = b->process->session;
    struct blocked now;
    struct stream *s;

    if (!session || session->halted)
        return false;
    s = slots_get(&session->streams, b->slot);
    if (b->stream < 0 ? !blocked_of_thread(session, b->slot, &now)
                      : !s || !blocked_of_stream(s, &now))
        return false;
    return now.since_ns == b->since_ns && now.target == b->target;
}

/*
 * Streams and threads were looked at one after the other, and what blocks them later: so what looks
 * stuck may have gone on in between, and what it has done, or does next, may let others go. What is
 * now where it was then has been there all the time, and has done nothing. What is not can go on.
 */
static int deadlocks_confirm(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_blocked) {
        engines_lock(g->server);
        for (unsigned n = 0; n < LOOKS_PER_LOCK && g->at < g->n_blocked; n++, g->at++)
            if (!g->node[g->at].live && !still_blocked(&g->blocked[g->at]))
                g->node[g->at].leaf = true;
        engines_unlock(g->server);
        if (clock_ns() >= g->until)
            return 1;
    }
    return 0;
}

/* --- deadlocks --- */

/*
 * Is `to` told rather than `than`, of what the node leads to? The first one is. But of a process a
 * thread is, which waits, and not a stream behind which a callback might run in it: that one is not
 * what keeps the process.
 */
static bool is_told_rather(const struct wait_graph *g, uint32_t node, uint32_t to, uint32_t than)
{
    bool thread, other;

    if (node < g->n_blocked || node >= wait_graph_outside(g) || than == NOWHERE)
        return to < than;
    thread = g->blocked[to].stream < 0;
    other = g->blocked[than].stream < 0;
    return thread != other ? thread : to < than;
}

/* One that cannot go on either, of those that it leads to. */
static uint32_t stuck_successor(const struct wait_graph *g, uint32_t node, bool certain)
{
    uint32_t first = NOWHERE;

    for (uint32_t e = g->node[node].out; e != 0; e = g->edge[e - 1].next_out) {
        const struct wait_edge *edge = &g->edge[e - 1];

        if (!g->node[edge->to].live && (certain || !edge->weak) &&
            is_told_rather(g, node, edge->to, first))
            first = edge->to;
    }
    return first;
}

/* From every stuck node one way on: each way ends in a circle. */
static int deadlocks_find_next(struct wait_graph *g, bool certain)
{
    while (g->at < g->n_nodes) {
        struct wait_node *node = &g->node[g->at];

        node->mark = 0;
        node->next = node->live ? NOWHERE : stuck_successor(g, (uint32_t)g->at, certain);
        g->at++;
        if (waits_slice_over(g))
            return 1;
    }
    g->stage = 0;
    return 0;
}

/* The next one of the circle. False: that was all of it. */
static bool walk_on(struct wait_graph *g)
{
    g->node_at = g->node[g->node_at].next;
    return g->node_at != g->making.start;
}

/* What is stuck for a moment only is no news. */
static bool is_old_enough(const struct deadlock_making *m)
{
    return m->since_ns <= clock_ns() - (m->d.certain ? 0 : SUSPECT_NS);
}

static void begin_deadlock(struct wait_graph *g, bool certain)
{
    /* No circle is of processes and groups alone. */
    while (g->node_at >= g->n_blocked)
        g->node_at = g->node[g->node_at].next;
    g->making =
        (struct deadlock_making){.d.certain = certain, .start = g->node_at, .stage = MAKE_COUNT};
}

/* 1: to be continued; 0: that is its number of members, and when the last one came. */
static int count_members(struct wait_graph *g)
{
    struct deadlock_making *m = &g->making;
    bool more = true;

    while (more) {
        const struct blocked *b = &g->blocked[g->node_at];

        if (g->node_at < g->n_blocked) {
            m->d.n++;
            m->since_ns = b->since_ns > m->since_ns ? b->since_ns : m->since_ns;
        }
        more = walk_on(g);
        if (more && waits_slice_over(g))
            return 1;
    }
    return 0;
}

/* 0 or -ENOMEM. */
static int prepare_members(struct wait_graph *g)
{
    struct deadlock *all =
        array_grow(g->deadlock, &g->deadlock_size, g->n_deadlocks + 1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    g->deadlock = all;
    g->making.d.member = calloc(g->making.d.n, sizeof(const struct blocked *));
    g->making.stage = MAKE_FILL;
    return g->making.d.member ? 0 : -ENOMEM;
}

static void add_member(struct wait_graph *g, struct blocked *b)
{
    struct deadlock_making *m = &g->making;

    m->d.member[m->filled++] = b;
    m->d.processes += b->process->counted != g->n_deadlocks + 1;
    b->process->counted = g->n_deadlocks + 1;
    b->deadlock = (uint32_t)g->n_deadlocks + 1;
    b->member = true;
}

/* 1: to be continued; 0: it is among the others. */
static int fill_members(struct wait_graph *g)
{
    bool more = true;

    while (more) {
        if (g->node_at < g->n_blocked)
            add_member(g, &g->blocked[g->node_at]);
        more = walk_on(g);
        if (more && waits_slice_over(g))
            return 1;
    }
    g->deadlock[g->n_deadlocks++] = g->making.d;
    g->making = (struct deadlock_making){0};
    return 0;
}

/* The walk has come to a circle. 1: to be continued; 0, or -ENOMEM. */
static int add_deadlock(struct wait_graph *g, bool certain)
{
    struct deadlock_making *m = &g->making;

    if (m->stage == MAKE_BEGIN)
        begin_deadlock(g, certain);
    if (g->blocked[m->start].deadlock != 0 && m->stage == MAKE_COUNT) {
        m->stage = MAKE_BEGIN; /* it is known */
        return 0;
    }
    if (m->stage == MAKE_COUNT) {
        if (count_members(g) > 0)
            return 1;
        if (!is_old_enough(m)) {
            m->stage = MAKE_BEGIN;
            return 0;
        }
        if (prepare_members(g) < 0)
            return -ENOMEM;
    }
    return fill_members(g);
}

/* Stages of a walk. */
enum { WALK_BEGIN, WALK_GO, WALK_END };

/* 1: to be continued; 0: it has come to its own track, that of another, or the end. */
static int walk_to_circle(struct wait_graph *g)
{
    if (g->stage == WALK_BEGIN)
        g->node_at = (uint32_t)g->at;
    g->stage = WALK_GO;
    while (g->node_at != NOWHERE && g->node[g->node_at].mark == 0) {
        g->node[g->node_at].mark = (uint32_t)g->at + 1;
        g->node_at = g->node[g->node_at].next;
        if (waits_slice_over(g))
            return 1;
    }
    g->stage = WALK_END;
    return 0;
}

static int deadlocks_find_circles(struct wait_graph *g, bool certain)
{
    while (g->at < g->n_blocked) {
        int r = g->stage == WALK_END ? 0 : walk_to_circle(g);

        /* Back on this walk's own track: a circle. */
        if (r == 0 && (g->making.stage != MAKE_BEGIN ||
                       (g->node_at != NOWHERE && g->node[g->node_at].mark == g->at + 1)))
            r = add_deadlock(g, certain);
        if (r != 0)
            return r;
        g->stage = WALK_BEGIN;
        g->at++;
        if (waits_slice_over(g))
            return 1;
    }
    return 0;
}

static uint32_t deadlock_of(const struct wait_graph *g, uint32_t node)
{
    return node < g->n_blocked ? g->blocked[node].deadlock : 0;
}

/* 1: to be continued; 0: g->behind is what the walk has come to. */
static int walk_to_deadlock(struct wait_graph *g)
{
    if (g->stage == WALK_BEGIN) {
        g->node_at = (uint32_t)g->at;
        g->behind = 0;
    }
    g->stage = WALK_GO;
    while (g->node_at != NOWHERE && g->behind == 0 && g->node[g->node_at].mark == 0) {
        g->node[g->node_at].mark = (uint32_t)g->at + 1;
        g->behind = deadlock_of(g, g->node_at);
        g->node_at = g->node[g->node_at].next;
        if (waits_slice_over(g))
            return 1;
    }
    if (g->behind == 0 && g->node_at != NOWHERE && g->node[g->node_at].mark != g->at + 1)
        g->behind = g->node[g->node_at].behind;
    g->node_at = (uint32_t)g->at;
    g->stage = WALK_END;
    return 0;
}

/* The same way once more. 1: to be continued; 0: all of it is known to be behind that. */
static int tell_walk(struct wait_graph *g)
{
    while (g->node_at != NOWHERE && g->node[g->node_at].mark == g->at + 1) {
        struct wait_node *node = &g->node[g->node_at];

        node->mark = UINT32_MAX; /* over */
        node->behind = g->behind;
        if (g->node_at < g->n_blocked && g->blocked[g->node_at].deadlock == 0)
            g->blocked[g->node_at].deadlock = g->behind;
        g->node_at = node->next;
        if (waits_slice_over(g))
            return 1;
    }
    g->stage = WALK_BEGIN;
    return 0;
}

/*
 * A node that only leads to a circle waits behind it. Nodes of one walk end alike, and no walk goes
 * further than where one has been.
 */
static int deadlocks_follow(struct wait_graph *g, bool certain)
{
    (void)certain;
    while (g->at < g->n_blocked) {
        if ((g->stage != WALK_END && walk_to_deadlock(g) > 0) || tell_walk(g) > 0)
            return 1;
        g->at++;
        if (waits_slice_over(g))
            return 1;
    }
    return 0;
}

/* --- in words --- */

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
                                 (int)b->process->pid, b->process->program, name);
        if (i < d->n && used < size)
            used += (size_t)snprintf(buf + used, size - used, " waits for %s", what);
    }
}

/* --- the phases --- */

/*
 * What seems stuck without certainty is looked at once more, in one go for both kinds of deadlocks:
 * what is certainly stuck is among it.
 */
static const struct {
    wait_phase_fn *run;
    bool certain;
} phases[] = {
    {collect_all_streams, false},
    {collect_all_threads, false},
    {make_nodes, false},
    {blockers_resolve, false},
    {blockers_resolve_processes, false},
    {groups_fill, false},
    {groups_tell, false},

    {deadlocks_begin, false},
    {deadlocks_begin_nodes, false},
    {deadlocks_spread_life, false},
    {deadlocks_confirm, false},

    {deadlocks_begin, true},
    {deadlocks_begin_nodes, true},
    {deadlocks_spread_life, true},
    {deadlocks_find_next, true},
    {deadlocks_find_circles, true},
    {deadlocks_find_next, true},
    {deadlocks_follow, true},

    {deadlocks_begin, false},
    {deadlocks_begin_nodes, false},
    {deadlocks_spread_life, false},
    {deadlocks_find_next, false},
    {deadlocks_find_circles, false},
    {deadlocks_find_next, false},
    {deadlocks_follow, false},
};
#define PHASES (sizeof(phases) / sizeof(phases[0]))

bool waits_slice_over(struct wait_graph *g)
{
    return ++g->looks % LOOKS_PER_TIME == 0 && clock_ns() >= g->until;
}

struct wait_graph *waits_new(struct server *server)
{
    struct wait_graph *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->server = server;
    g->budget = QUEUED_ENTRIES_MAX;
    if (list_processes(g) < 0) {
        waits_free(g);
        return NULL;
    }
    return g;
}

int waits_step(struct wait_graph *g, uint64_t until)
{
    g->until = until;
    find_gone(g);
    while (g->phase < PHASES) {
        int r = phases[g->phase].run(g, phases[g->phase].certain);

        if (r != 0)
            return r;
        g->phase++;
        g->at = 0;
        if (clock_ns() >= until)
            return 1;
    }
    return 0;
}

void waits_free(struct wait_graph *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_processes; i++)
        queued_deinit(&g->process[i].queued);
    for (size_t i = 0; i < g->n_deadlocks; i++)
        free(g->deadlock[i].member);
    free(g->making.d.member);
    free(g->process);
    free(g->edge);
    free(g->node);
    free(g->group);
    free(g->group_bucket);
    free(g->todo);
    free(g->deadlock);
    free(g->blocked);
    free(g);
}
