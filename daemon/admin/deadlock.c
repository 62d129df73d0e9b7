#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/array.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"

#define DESCRIBED_MAX 32           /* members of a deadlock that are spelt out */
#define SUSPECT_NS    NSEC_PER_SEC /* a circle that another thread could end is no news before */

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

static size_t first_edge(const struct wait_graph *g, uint32_t node,
                         int (*compare)(const void *, const void *))
{
    const struct wait_edge key = {.from = node, .to = compare == compare_by_to ? node : 0};

    return array_lower_bound(g->edge, g->n_edges, sizeof(key), &key, compare);
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

        for (size_t e = first_edge(g, node, compare_by_to); e < g->n_edges && g->edge[e].to == node;
             e++) {
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
    for (size_t e = first_edge(g, node, compare_by_from); e < g->n_edges && g->edge[e].from == node;
         e++)
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

    engines_lock(g->server);
    for (size_t i = 0; i < d->n && there; i++)
        there = still_blocked(d->member[i]);
    engines_unlock(g->server);
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

/*
 * A node that only leads to a circle waits behind it. mark: nodes of one walk, which all end alike.
 */
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

int deadlocks_find(struct wait_graph *g, bool certain)
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
                                 (int)b->session->pid, b->session->program, name);
        if (i < d->n && used < size)
            used += (size_t)snprintf(buf + used, size - used, " waits for %s", what);
    }
}
