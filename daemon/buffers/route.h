/*
 * A route between two queues (router.h): its names, its messages, what it waits for, its life.
 * Control thread.
 */
#pragma once

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/user.h"
#include "daemon/core/backlog.h"
#include "daemon/core/cause.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/kept.h"

struct chain;
struct peer;
struct relay;
struct route_index;
struct route_rest;
struct segment;
struct server;
struct session;

enum route_state {
    /* as in the API */
    ROUTE_UNBOUND = 0, /* listed no more; there to deliver its backlog */
    ROUTE_BOUND = 1,
    ROUTE_ABNORMAL = 2, /* source or destination has gone */
};

/** The ids of queues are a user's own. */
struct route_name {
    uint32_t uid; /* of the queues, and of the session that bound it */
    uint32_t source, destination;
};

/** Of a route in a list that is sorted (route_index.h): by these three. */
struct route_node {
    RB_ENTRY(route_node) tree;
    uint32_t first, second; /* source and destination, or the other way round */
    uint64_t number;        /* of the route */
};

struct route {
    struct router *router;
    uint64_t number; /* in all of npud, ascending */
    enum route_state state;
    struct relay *source, *destination; /* NULL: gone */
    struct route_name name;
    struct peer *binder; /* NULL: it has ended */
    struct user *user;   /* whose it is; a reference */
    struct charge charge;
    struct kept kept;
    struct route_live *live; /* in the record */
    uint64_t from;           /* serial of the source, also when it has gone */
    uint64_t end;            /* of an unbound one: what has this number is not for it; 0: bound */
    struct route_gap *gaps;  /* oldest first */

    bool over; /* in router->over */
    /* NULL, or its slot_waiters have the route, and destination->waiting does not */
    struct segment *waits_in;
    uint32_t slot_segment; /* id of a segment that had no slot */
    struct backlog backlog;

    struct route *prev, *next;         /* router->all, by number */
    struct route *out_prev, *out_next; /* source->out */
    struct route *in_prev, *in_next;   /* destination->in */
    /* destination->waiting, or slot_waiters of a segment, while there is a backlog */
    struct route *waiting_prev, *waiting_next;
    struct route *bound_prev, *bound_next; /* binder->routes */
    struct route *over_next;               /* router->over */
    struct route_node node[3];             /* route_index.h */
};

/** Messages that a route did not get while it was unbound, and had some to deliver. */
struct route_gap {
    struct kept kept;
    struct route *route;
    uint64_t from, to; /* by their numbers */
    struct route_gap *next;
};

struct router {
    struct server *server;
    struct route *all;
    struct route_index *by_user;
    struct relay *starved; /* sources: wait for npud's memory */
    uint32_t n_starved;
    uint32_t to_unstarve;          /* of these, from the first on */
    struct job unstarve;           /* the rest of these */
    struct job memory_came;        /* these may find memory now */
    uint32_t *held;                /* heads of messages that npud has, by the id of their segment */
    struct route_rest *rests;      /* route_rest.h */
    struct message *spare;         /* for the next message that is taken, or NULL */
    bool unkept;                   /* a message in a backlog may not be certain */
    struct route *over;            /* to be freed by route_reap() */
    bool (*turn)(struct job *job); /* of a relay: route_pump.h */
};

/* --- messages that npud has taken from a source and has not delivered to all destinations --- */

/** Make memory for the next message, also for its record. False: none. */
bool message_prepare(struct router *router);

/** The chain with this head, in the memory that was prepared: what the source has taken. */
struct message *message_new(struct relay *from, uint32_t ref, const struct chain *chain);

/** It gets a record. False: no memory. */
bool message_record_keep(struct message *m);

/** It is in a backlog: it outlives npud by itself, and not because its source has it in hand. */
void message_keep(struct router *router, struct message *m);

/** Its buffers are npud's no more: a ring has them. */
void message_delivered(struct router *router, struct message *m);

/** One route less has to deliver it. After the last one, what npud still has of it is freed. */
void message_done(struct router *router, struct message *m);

/** npud ends: free what was prepared. */
void message_free_spare(struct router *router);

/* --- routes --- */

/** A route of the session's user, not bound yet. */
enum cause route_new(struct session *session, struct relay *source, struct relay *destination,
                     const struct route_name *name, struct route **routep);

/**
 * There is room for the next message of its source, which this route is to get: it gets that
 * message also when it is unbound after the message was taken.
 */
void route_reserve(struct route *route);
/** It gets the message now, or never. */
void route_unreserve(struct route *route);
/** Never. */
void route_forgo(struct route *route);

/**
 * It is bound once more while it still has messages to deliver: those that it has missed are noted.
 * False: no memory.
 */
bool route_prepare_gap(struct route *route);
/** The message with this number is delivered, or is none: the next one has its turn. */
void route_passed(struct route *route, uint64_t sequence);

/** Sets the state; counts it in its relays if it is bound. */
void route_set_state(struct route *route, enum route_state state);

/**
 * The session that has bound it has ended; its source, or its destination has gone, and its backlog
 * before (route_rest_begin()).
 */
void route_leave_binder(struct route *route);
void route_leave_source(struct route *route);
void route_leave_destination(struct route *route);

/**
 * The route has less to deliver than it had: route_reap() frees it, if it was there for that only.
 */
void route_check_over(struct route *route);

/** Free the routes that are over, and relays without any. */
void route_reap(struct router *router);

/** The first message of its backlog needs a slot in route->slot_segment, which has no free one. */
void route_wait_for_slot(struct route *route);

/** It has a backlog, and the destination may take from it. */
void route_wait_for_turn(struct route *route);
void route_stop_waiting(struct route *route);

/** It has waited for a slot: it waits for its turn. */
void route_try_again(struct route *route);

/** A slot without data has become free in this segment: the routes that wait for one try again. */
void route_slot_freed(struct segment *segment);

/** For route_record.c: listed and counted, with a name, but not charged. NULL: no memory. */
struct route *route_make(struct router *router, struct user *user, const struct route_name *name,
                         uint64_t number);
/** From its source to its destination, either of which may be NULL. */
void route_join(struct route *route, struct relay *source, struct relay *destination);
bool route_keep(struct route *route);
/**
 * A gap as r says. cell: of the record that it has; NULL: it gets one. False: no memory, or route
 * is NULL.
 */
bool route_add_gap(struct route *route, const struct route_gap_record *r, struct kept_cell *cell);
