#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/base/array.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"

#define DESCRIBED_MAX  32 /* members of a deadlock that are spelt out */
#define LOOKS_PER_LOCK 64
#define SUSPECT_NS     NSEC_PER_SEC /* a circle that another thread could end is no news before */

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

/* All that leads to something live is live. */
static void spread_life(struct wait_graph *g, bool certain)
{
    size_t todo = 0;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].live)
            g->todo[todo++] = i;
    while (todo > 0) {
        uint32_t node = g->todo[--todo];

        for (uint32_t e = g->node[node].in; e != 0; e = g->edge[e - 1].next_in) {
            uint32_t from = g->edge[e - 1].from;

            if (g->node[from].live || (g->edge[e - 1].weak && !certain))
                continue;
            g->node[from].live = true;
            g->todo[todo++] = from;
        }
    }
}

/* --- deadlocks --- */

#define NOWHERE UINT32_MAX

/* One that cannot go on either, of those that it leads to: the first of them. */
static uint32_t stuck_successor(const struct wait_graph *g, uint32_t node, bool certain)
{
    uint32_t first = NOWHERE;

    for (uint32_t e = g->node[node].out; e != 0; e = g->edge[e - 1].next_out) {
        const struct wait_edge *edge = &g->edge[e - 1];

        if (!g->node[edge->to].live && (certain || !edge->weak) && edge->to < first)
            first = edge->to;
    }
    return first;
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
 * moment when the last one had been looked at, and it was. So it does not matter that these are not
 * looked at in one moment either, and the engines are kept out for a few at a time.
 */
static bool is_still_there(struct wait_graph *g, const struct deadlock *d)
{
    bool there = true;

    for (size_t i = 0; i < d->n && there;) {
        engines_lock(g->server);
        for (unsigned k = 0; k < LOOKS_PER_LOCK && i < d->n && there; k++)
            there = still_blocked(d->member[i++]);
        engines_unlock(g->server);
    }
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

static uint32_t count_processes(struct wait_graph *g, const struct deadlock *d)
{
    uint32_t n = 0;

    for (size_t i = 0; i < d->n; i++) {
        struct wait_process *p = wait_graph_process(g, d->member[i]->session);

        n += p->counted != g->n_deadlocks + 1;
        p->counted = g->n_deadlocks + 1;
    }
    return n;
}

static int deadlock_add(struct wait_graph *g, uint32_t start, bool certain)
{
    struct deadlock *all =
        array_grow(g->deadlock, &g->deadlock_size, g->n_deadlocks + 1, sizeof(*all));
    struct deadlock d = {.certain = certain};
    uint32_t node = start;

    if (!all)
        return -ENOMEM;
    g->deadlock = all;
    do {
        d.n += node < g->n_blocked;
        node = g->node[node].next;
    } while (node != start);
    d.member = calloc(d.n + 1, sizeof(const struct blocked *));
    if (!d.member)
        return -ENOMEM;
    d.n = 0;
    do {
        if (node < g->n_blocked)
            d.member[d.n++] = &g->blocked[node];
        node = g->node[node].next;
    } while (node != start);
    if (!is_old_enough(&d) || !is_still_there(g, &d)) {
        free(d.member);
        return 0;
    }
    d.processes = count_processes(g, &d);
    g->deadlock[g->n_deadlocks++] = d;
    for (size_t i = 0; i < d.n; i++) {
        g->blocked[wait_graph_node(g, d.member[i])].deadlock = (uint32_t)g->n_deadlocks;
        g->blocked[wait_graph_node(g, d.member[i])].member = true;
    }
    return 0;
}

/* From every stuck node one way on: each way ends in a circle. */
static int find_circles(struct wait_graph *g, bool certain)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        g->node[i].mark = 0;
        g->node[i].next = g->node[i].live ? NOWHERE : stuck_successor(g, i, certain);
    }
    for (uint32_t i = 0; i < g->n_blocked; i++) {
        uint32_t node = i;

        while (node != NOWHERE && g->node[node].mark == 0) {
            g->node[node].mark = i + 1;
            node = g->node[node].next;
        }
        /* Back on this walk's own track: a circle, unless it was known. */
        if (node == NOWHERE || g->node[node].mark != i + 1)
            continue;
        while (node >= g->n_blocked)
            node = g->node[node].next;
        if (g->blocked[node].deadlock == 0 && deadlock_add(g, node, certain) < 0)
            return -ENOMEM;
    }
    return 0;
}

static uint32_t deadlock_of(const struct wait_graph *g, uint32_t node)
{
    return node < g->n_blocked ? g->blocked[node].deadlock : 0;
}

/*
 * A node that only leads to a circle waits behind it. Nodes of one walk end alike, and no walk goes
 * further than where one has been.
 */
static void find_followers(struct wait_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        g->node[i].mark = 0;
    for (uint32_t i = 0; i < g->n_blocked; i++) {
        uint32_t node = i, deadlock = 0;

        while (node != NOWHERE && deadlock == 0 && g->node[node].mark == 0) {
            g->node[node].mark = i + 1;
            deadlock = deadlock_of(g, node);
            node = g->node[node].next;
        }
        if (deadlock == 0 && node != NOWHERE && g->node[node].mark != i + 1)
            deadlock = g->node[node].behind;
        for (node = i; node != NOWHERE && g->node[node].mark == i + 1;) {
            g->node[node].mark = UINT32_MAX; /* over */
            g->node[node].behind = deadlock;
            if (node < g->n_blocked && g->blocked[node].deadlock == 0)
                g->blocked[node].deadlock = deadlock;
            node = g->node[node].next;
        }
    }
}

int deadlocks_find(struct wait_graph *g, bool certain)
{
    for (size_t i = 0; i < g->n_processes; i++) {
        struct wait_process *p = &g->process[i];

        g->node[wait_graph_process_node(g, p)].leaf =
            p->n_threads == 0 || (p->reports && p->busy) || (certain && other_threads(p) != 0);
    }
    g->node[wait_graph_outside(g)].leaf = certain;
    for (size_t i = 0; i < g->n_nodes; i++)
        g->node[i].live = g->node[i].leaf;
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
