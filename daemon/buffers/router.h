/*
 * Routes: npud moves every message of a source queue to one or more destination queues, without
 * copying data.
 *
 * A queue that is the source or the destination of a route has a relay. npud is one more consumer
 * of a source, and one more producer of a destination, under peer number 0. npud takes a message
 * only when it has the memory to give it to every route that is bound at that moment. Taking it and
 * giving it to all of them is one step of the control thread, so that no unbinding, and no end of a
 * queue, comes in between. A destination that is full lets messages pile up in the backlog of the
 * route, in order, so that nobody but it waits; when the backlog is full too, the source waits, and
 * its producers find it full.
 *
 * Slots. A message has one chain of buffers, however many routes have yet to deliver it (struct
 * message). A route gets references of its own to the data only when it puts the message into the
 * ring of its destination; the last one puts the buffers themselves. So a backlog needs no slots,
 * but a ring does, and all rings peer those of a segment. A destination may have as many messages
 * of npud's in its ring as the segment has free slots: rings that nobody empties thus leave some
 * free, the more rings, the fewer messages in each (put() in route_pump.c). With that many in its
 * ring a destination counts as full. A route to an empty ring that finds no free slot waits, in
 * router->waits_slot, until a client frees one.
 *
 * Routes end, their messages do not: of a route that was unbound, or whose source has gone, npud
 * delivers what it has taken. With a destination goes what was meant for it.
 *
 * This file has who is bound to whom; route_pump.h moves messages. Control thread.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/backlog.h"
#include "daemon/base/hash.h"
#include "daemon/base/user.h"

struct queue;
struct segment;
struct server;
struct session;
struct peer;

enum route_state {                    /* the first three as in the API */
                   ROUTE_UNBOUND = 0, /* listed no more; there to deliver its backlog */
                   ROUTE_BOUND = 1,
                   ROUTE_ABNORMAL = 2, /* source or destination has gone */
};

/** The ids of queues are a user's own. */
struct route_name {
    uint32_t uid; /* of the source */
    uint32_t source, destination;
};

/**
 * Routes between queues with these ids. More than one only when queues have gone and others have
 * got their ids.
 */
struct route_namesakes {
    struct route_name name;
    struct route *routes;
    UT_hash_handle hh;
};

struct route {
    struct router *router;
    uint64_t number; /* in all of npud, ascending */
    enum route_state state;
    struct relay *source, *destination; /* NULL: gone */
    struct route_namesakes *named;
    struct peer *binder; /* NULL: it has ended */
    struct user *user;   /* whose it is; a reference */
    struct charge charge;

    bool over;       /* in router->over */
    bool waits_slot; /* in router->waits_slot, and not in destination->waiting */
    uint32_t wanted; /* then: id of the segment */
    struct backlog backlog;
    uint64_t messages; /* delivered */

    struct route *prev, *next;           /* router->all, by number */
    struct route *same_prev, *same_next; /* named->routes */
    struct route *out_prev, *out_next;   /* source->out */
    struct route *in_prev, *in_next;     /* destination->in */
    struct route *waiting_prev,
        *waiting_next; /* destination->waiting, or router->waits_slot, while there is a backlog */
    struct route *bound_prev, *bound_next; /* binder->routes */
    struct route *over_next;               /* router->over */
};

/**
 * What the router knows of a queue: queue->route. It goes with its last route, or, when somebody
 * may ring, with the queue.
 */
struct relay {
    struct server *server;
    struct queue *queue;
    struct route *out, *in;
    uint32_t n_out, n_in;  /* of these: ROUTE_BOUND */
    struct route *waiting; /* routes into here with a backlog, the next one to be served first */
    uint32_t n_copies;     /* that npud has put into the ring since it last had none there */
    uint64_t copies_end;   /* the position behind the last one */
    int32_t gone;          /* pid of who could put last into a source that has gone; 0: none has */

    bool ready;   /* in router->ready */
    bool armed;   /* QUEUE_ROUTER is set where somebody will see it */
    bool starved; /* in router->starved: npud has no memory */
    struct relay *ready_prev, *ready_next;
    struct relay *starved_prev, *starved_next;

    struct event *on_bell;
    int bell; /* eventfd, shared with whoever may ring; -1: nobody has asked for it */
    struct charge charge_bell;
};

struct router {
    struct server *server;
    struct route *all;
    struct route_namesakes *by_name;
    uint64_t last_route;
    struct relay *ready;   /* have something to do, the next one first */
    struct relay *starved; /* sources: wait for npud's memory */
    struct route *waits_slot;
    struct message *spare; /* for the next message that is taken, or NULL */
    struct route *over;    /* to be freed by router_reap() */
    struct event *on_ready;
};

/** 0 or -ENOMEM. */
int router_init(struct server *server);
/** No session is left, and so no route. */
void router_deinit(struct server *server);

/**
 * Set the bit of each segment from which the router has the head of a message. bits: SEGMENT_IDS of
 * them.
 */
void router_holdings(struct server *server, uint64_t *bits);

/* --- for requests; sentences say why, for humans --- */

/**
 * Bind source to destination, ids of queues of the session. Returns ROUTE_BOUND, also when it is
 * bound already, or else what the state is, with a sentence in why[room].
 */
enum route_state router_bind(struct session *session, uint32_t source, uint32_t destination,
                             char *why, size_t room);

/**
 * End the route, if there is one. Returns ROUTE_UNBOUND, or else what the state is, with a sentence
 * in why[room].
 */
enum route_state router_unbind(struct session *session, uint32_t source, uint32_t destination,
                               char *why, size_t room);

/** What to look for; as in the request QueryRoutes. */
struct route_query {
    uint32_t mode;
    uint32_t source, destination;
    bool goes_on; /* after the following pair */
    uint32_t after_source, after_destination;
};

/**
 * The routes that the session may see, ascending by source and destination: at most n into found[].
 * Returns how many, *more: there are more than that.
 */
size_t router_query(struct session *session, const struct route_query *query,
                    const struct route **found, size_t n, bool *more);

/**
 * The eventfd on which the router waits for this queue, borrowed, made if need be. The router looks
 * at the queue now. -ENOENT: it is part of no route; -EDQUOT, -EMFILE.
 */
int router_bell(struct queue *queue);

/* --- for queues, beside the hooks of queue.h and pool.h --- */

/** Is it the source or the destination of a route that is listed? Then it must not be destroyed. */
bool router_uses(const struct queue *queue);

/** The session ends: routes that it has bound are nobody's, and go if their queues have gone. */
void router_session_gone(struct peer *peer);

/* --- for route_pump.c --- */

/**
 * The route has less to deliver than it had: router_reap() frees it, if it was there for that only.
 */
void route_settle(struct route *route);

/** Free the routes that are over, and relays without any. */
void router_reap(struct router *router);
