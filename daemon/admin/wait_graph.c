#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/array.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"

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

static int collect_streams(struct wait_graph *g, struct wait_process *p)
{
    struct blocked b;
    struct stream *s;
    int r = 0;

    p->first_stream = g->n_blocked;
    if (p->session->halted)
        return 0;
    slots_foreach (&p->session->streams, i, s) {
        if (r == 0 && blocked_of_stream(s, &b))
            r = add_blocked(g, &b);
        else
            p->busy |= atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed) != s->head;
    }
    p->n_streams = g->n_blocked - p->first_stream;
    return r;
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

/*
 * All streams, then the threads. What is found to be a deadlock is looked at again: see
 * is_still_there().
 */
int wait_graph_collect(struct wait_graph *g)
{
    struct session *session;
    int r = 0;

    g->process = calloc(g->server->n_sessions + 1, sizeof(*g->process));
    if (!g->process)
        return -ENOMEM;
    g->n_processes = 0;
    DL_FOREACH (g->server->sessions, session)
        g->process[g->n_processes++].session = session;
    /* The streams of one process at a time: the engines are not kept waiting for all of them. */
    for (size_t i = 0; i < g->n_processes && r == 0; i++) {
        engines_lock(g->server);
        r = collect_streams(g, &g->process[i]);
        engines_unlock(g->server);
    }
    for (size_t i = 0; i < g->n_processes && r == 0; i++)
        r = collect_threads(g, &g->process[i]);
    return r;
}

/* --- nodes and edges --- */

uint32_t wait_graph_outside(const struct wait_graph *g)
{
    return (uint32_t)(g->n_blocked + g->n_processes);
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
    uint64_t a = *(const uint64_t *)key, b = ((const struct wait_process *)member)->session->id;

    return a < b ? -1 : a > b;
}

/* Sessions are numbered in the order in which they come, and the list is in that order. */
struct wait_process *wait_graph_process(struct wait_graph *g, const struct session *session)
{
    return bsearch(&session->id, g->process, g->n_processes, sizeof(*g->process), compare_session);
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
