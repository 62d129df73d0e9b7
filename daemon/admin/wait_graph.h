/*
 * Every stream that is parked on a wait and every client thread that sleeps in the library, what
 * blocks each of them, and the circles among them. Made for one report and thrown away; control
 * thread.
 *
 * A deadlock is certain when no member of the circle can go on without another: streams that wait
 * without a limit, and processes all of whose threads sleep in the library. It is suspected, after
 * a second, when a process in it has more threads than those, or npud cannot count them: one of
 * them may yet submit what is missing.
 *
 * The graph. Nodes are what is blocked (streams, then threads) and, after them, one per session:
 * its process, for what has not been submitted and can come from any of its threads. A node can go
 * on if any node that it leads to can: so what is stuck is what cannot reach a live node. And one
 * node for processes that may yet come. Behind these, one for each object that blocks many: a
 * thousand waits for one of a thousand records lead there, and from there to each record, so that
 * the graph is no larger than what is waited for and what is queued.
 *
 * wait_graph.c collects the nodes, blocker.c finds the edges, deadlock.c the circles, waits.c calls
 * them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/admin/blocked.h"
#include "daemon/admin/queued.h"

struct server;

struct deadlock {
    bool certain;
    uint32_t processes;
    size_t n;                      /* members */
    const struct blocked **member; /* each waits for the next, the last for the first */
    bool told;                     /* a wait of the user that asks is in or behind it */
};

struct wait_process {
    struct session *session;
    size_t first_stream, n_streams; /* in blocked[] */
    size_t first_thread, n_threads;
    bool reports; /* one of them waits for callbacks */
    bool busy;    /* a stream has something to do */
    struct queued queued;
    bool scanned;
    size_t counted; /* 1 + index of the last deadlock that it was found in */
};

struct wait_edge {
    uint32_t from, to;
    /* 1 + the next edge from there, and to there; 0: none */
    uint32_t next_out, next_in;
    /*
     * to the process, beside a record that is queued, or to those outside: counts for certainty
     * only
     */
    bool weak;
};

struct wait_node {
    uint32_t out, in; /* 1 + the latest edge; 0: none */
    uint32_t next;    /* on the way to a circle */
    uint32_t mark;    /* 1 + the walk that came by; 0: none */
    uint32_t behind;  /* once the walk is over: the deadlock it has led to, or 0 */
    bool live;        /* it can go on */
    bool leaf;        /* without any other */
};

/** What blocks all waits of one kind for one object. */
struct wait_group {
    struct wait_group_key {
        uint64_t session; /* whose object it is; 0: of all */
        uint64_t object, target;
        uint32_t generation;
        uint32_t what; /* enum wait_on, or a right */
    } key;
    uint32_t node;
    struct session *blocker, *other; /* different ones, and not the waiter's if there is one */
    int32_t blocker_stream;
    uint32_t blockers;
    struct wait_group *next; /* g->latest */
    UT_hash_handle hh;
};

struct wait_graph {
    struct server *server;
    struct blocked *blocked; /* streams first, then threads */
    size_t n_blocked, blocked_size;
    struct deadlock *deadlock;
    size_t n_deadlocks, deadlock_size;
    struct wait_process *process;
    size_t n_processes;
    struct wait_edge *edge;
    size_t n_edges, edges_size;
    struct wait_node *node;
    size_t n_nodes, nodes_size;
    struct wait_group *groups; /* by key */
    struct wait_group *latest; /* all of them */
    uint32_t *todo;            /* nodes to be looked at */
    size_t budget;             /* ring entries that may still be looked at */
};

/** All of it. 0 or -ENOMEM. Freed by waits_deinit() in either case. */
int waits_init(struct wait_graph *g, struct server *server);
void waits_deinit(struct wait_graph *g);

/** Fill the tables of processes and of what is blocked. 0 or -ENOMEM. */
int wait_graph_collect(struct wait_graph *g);

/** Add the edges of all nodes, and note in each wait which process blocks it. 0 or -ENOMEM. */
int blockers_find(struct wait_graph *g);

/**
 * Add the deadlocks that are certain, or those that are suspected, and mark the waits that are in
 * or behind one. 0 or -ENOMEM.
 */
int deadlocks_find(struct wait_graph *g, bool certain);

/** The circle, in words. */
void deadlock_describe(const struct deadlock *d, char *buf, size_t size);

/**
 * The last node: processes that have not come yet. They can end any wait that is open to them, but
 * no wait may count on them.
 */
uint32_t wait_graph_outside(const struct wait_graph *g);

/** One more node. Its number, or 0: no memory. */
uint32_t wait_graph_add_node(struct wait_graph *g);

/** The node of a stream or thread, and of a process. */
uint32_t wait_graph_node(const struct wait_graph *g, const struct blocked *b);
uint32_t wait_graph_process_node(struct wait_graph *g, const struct wait_process *p);

/** The entry of a session. */
struct wait_process *wait_graph_process(struct wait_graph *g, const struct session *session);

/** The blocked stream of that slot, or NULL when it is not blocked. */
struct blocked *wait_graph_stream(struct wait_graph *g, struct wait_process *p, uint32_t slot);

/** `from` cannot go on before `to` does. 0 or -ENOMEM. */
int wait_graph_add_edge(struct wait_graph *g, uint32_t from, uint32_t to, bool weak);
