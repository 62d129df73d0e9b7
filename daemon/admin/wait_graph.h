/*
 * Every stream that is parked on a wait and every client thread that sleeps in the library, what
 * blocks each of them, and the circles among them. Made for one report and thrown away; control
 * thread.
 *
 * It is made in slices, between which sessions, and all that they have, come and go. So it refers
 * to sessions by their entry in a table, which has no session any more when that has gone, and to
 * their objects by number. What stands still is looked at twice: what has moved on between the
 * first look and the second can go on, whatever the graph says of it. So what is said to be stuck
 * has stood still while all of the graph was made.
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
 * wait_graph.c collects the nodes, finds the circles among them, and calls all phases; blocker.c
 * finds the edges, also those of what blocks many.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/** A session, as long as it is there, and what is told of it also after that. */
struct wait_process {
    struct session *session; /* NULL: it has gone */
    uint64_t id;
    pid_t pid;
    uid_t uid;
    char program[64];
    size_t first_stream, n_streams; /* in blocked[] */
    size_t first_thread, n_threads;
    size_t n_idle;       /* threads of its library that wait for work: they are not in blocked[] */
    bool runs_callbacks; /* a thread of it waits for callbacks */
    bool busy;           /* a stream has something to do */
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

struct wait_graph;
struct wait_group;

/** Find what the group depends on. 1: to be continued; 0, or -ENOMEM. */
typedef int wait_fill_fn(struct wait_graph *g, struct wait_group *group);

/** What blocks all waits of one kind for one object. */
struct wait_group {
    struct wait_group_key {
        uint64_t session; /* whose object it is; 0: of all */
        uint64_t object, target;
        uint32_t generation;
        uint32_t what; /* enum wait_on, or a right */
    } key;
    uint32_t node;
    uint32_t sample; /* one of these waits: in blocked[] */
    wait_fill_fn *fill;
    uint32_t filled; /* how far it is */
    uint64_t changes;
    struct wait_process *blocker, *other; /* different ones, and not the waiter's if there is one */
    struct stream_name blocker_stream;
    uint32_t blockers;
    uint32_t same; /* 1 + the one before it in the same bucket; 0: none */
};

/** The deadlock that is being added. */
struct deadlock_making {
    enum { MAKE_BEGIN, MAKE_COUNT, MAKE_FILL } stage;
    struct deadlock d;
    uint64_t since_ns; /* when its last member began to wait */
    uint32_t start;
    size_t filled;
};

struct wait_graph {
    struct server *server;
    struct blocked *blocked; /* streams first, then threads */
    size_t n_blocked, blocked_size;
    struct deadlock *deadlock;
    size_t n_deadlocks, deadlock_size;
    struct wait_process *process; /* by id */
    size_t n_processes;
    struct wait_edge *edge;
    size_t n_edges, edges_size;
    struct wait_node *node;
    size_t n_nodes, nodes_size;
    struct wait_group *group; /* until all are made, they may move */
    size_t n_groups, groups_size;
    uint32_t *group_bucket; /* 1 + the latest group, by key */
    size_t n_buckets;
    uint32_t *todo; /* live nodes: what leads to them is live as well */
    size_t n_todo;
    size_t budget; /* ring entries that may still be looked at */

    /* how far it is */
    uint64_t until; /* when this slice is over */
    unsigned looks;
    uint64_t sessions_gone; /* of the server, when the table of processes was looked through last */
    unsigned phase;
    size_t at;                     /* in what this phase goes through, and ... */
    uint32_t slot;                 /* ... in what that has */
    uint32_t node_at, edge_at;     /* on a walk; 1 + an edge */
    unsigned stage;                /* of a walk */
    uint32_t behind;               /* what the walk has come to */
    struct deadlock_making making; /* while a circle is followed */
    size_t row, deadlock_row;      /* of the report */
};

/** Begin. NULL: no memory. */
struct wait_graph *waits_new(struct server *server);
/** Go on with it until that time. 1: there is more to do; 0: it is complete; or -ENOMEM. */
int waits_step(struct wait_graph *g, uint64_t until);
/** Safe on NULL, and at any time. */
void waits_free(struct wait_graph *g);

/** To be asked after each small piece of work: is the time of this slice over? */
bool waits_slice_over(struct wait_graph *g);

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

/** The entry of a session. NULL: it has come since the graph was begun. */
struct wait_process *wait_graph_process(struct wait_graph *g, const struct session *session);
struct wait_process *wait_graph_process_of(struct wait_graph *g, uint64_t id);

/**
 * Threads of the process that are not asleep in the library, and are the program's; negative: npud
 * may not look.
 */
long wait_graph_other_threads(const struct wait_process *p);

/** The blocked stream of that slot, or NULL when it is not blocked. */
struct blocked *wait_graph_stream(struct wait_graph *g, struct wait_process *p, uint32_t slot);

/** `from` cannot go on before `to` does. 0 or -ENOMEM. */
int wait_graph_add_edge(struct wait_graph *g, uint32_t from, uint32_t to, bool weak);

/**
 * A phase goes on from g->at: 1: to be continued; 0, or -ENOMEM. certain: for deadlocks that are
 * certain, or for those that are suspected.
 */
typedef int wait_phase_fn(struct wait_graph *g, bool certain);

/* blocker.c, in this order: what each wait depends on. */
wait_phase_fn blockers_resolve, blockers_resolve_processes;
wait_phase_fn groups_fill, groups_tell;
