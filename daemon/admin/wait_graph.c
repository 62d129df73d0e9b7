#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/array.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"

#define STREAMS_PER_LOCK 64 /* that are looked at while the engines are kept out */

/* --- processes --- */

int wait_graph_begin(struct wait_graph *g)
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

/* Sessions are numbered in the order in which they come, and the list is in that order. */
void wait_graph_find_gone(struct wait_graph *g)
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
                atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed) != s->kept->position;
        }
    }
    engines_unlock(g->server);
    *over = !s;
    return r;
}

/* Of the streams of a halted session none waits. */
int wait_graph_collect_streams(struct wait_graph *g, bool certain)
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
            p->reports |= b.on == ON_REPORT;
            b.process = p;
            r = add_blocked(g, &b);
        }
    p->n_threads = g->n_blocked - p->first_thread;
    return r;
}

int wait_graph_collect_threads(struct wait_graph *g, bool certain)
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
int wait_graph_make_nodes(struct wait_graph *g, bool certain)
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
