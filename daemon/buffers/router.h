/*
 * Routes: npud moves every message of a source queue to one or more destination queues, without
 * copying data.
 *
 * A queue that is the source or the destination of a route has a relay. npud is one more consumer
 * of a source, and one more producer of a destination, under peer number 0. npud takes a message
 * only when it has the memory to give it to every route that is bound at that moment. Taking it and
 * giving it to all of them is one step of the control thread, so that no unbinding, and no end of a
 * queue, comes in between. A destination that is full lets messages pile up in the backlog of the
 * route, in order, so that only this route waits; when the backlog is full too, the source waits,
 * and its producers find it full.
 *
 * Slots. A message has one chain of buffers, however many routes have yet to deliver it (struct
 * message). A route gets references of its own to the data only when it puts the message into the
 * ring of its destination; the last one puts the buffers themselves. So a backlog needs no slots,
 * but a ring does, and all rings share those of a segment. A destination may have as many messages
 * of npud's in its ring as the segment has free slots: rings that no consumer empties thus leave
 * some free, the more rings, the fewer messages in each (put_message() in route_pump.c). With that
 * many in its ring a destination counts as full. A route to an empty ring that finds no free slot
 * waits, in slot_waiters of the segment, until a client frees one.
 *
 * Routes end, their messages do not: of a route that was unbound, or whose source has gone, npud
 * delivers what it has taken. With a destination goes what was meant for it.
 *
 * relay.h has what the router knows of a queue, route.h the routes, route_pump.h moves messages;
 * here routes are bound and unbound, and learn of the ends of queues and sessions. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/buffers/route.h"
#include "daemon/core/cause.h"

struct queue;
struct segment;
struct kept_cell;
struct server;
struct session;
struct peer;

/** 0 or -ENOMEM. */
int router_init(struct server *server);
/** No session is left, and so no route. */
void router_deinit(struct server *server);

/** Has the router the head of a message from the segment with this id? */
bool router_holds(struct server *server, uint32_t segment);

/* --- over the end of npud: route_record.c --- */
/**
 * All is there: what npud was at is found in the rings and buffers, backlogs are filled, and
 * buffers that npud has and no message is made of are freed. False: no memory.
 */
bool router_finish_restoring(struct server *server);

/* --- for requests --- */

/** Why a route was not bound, or not unbound. */
struct route_refusal {
    enum cause cause;
    bool of_queue; /* the cause is about this queue, and not about the route */
    uint32_t queue;
};

/**
 * Bind source to destination, ids of queues of the session. Returns ROUTE_BOUND, also when it is
 * bound already, or else what the state is, with the cause in *why.
 */
enum route_state router_bind(struct session *session, uint32_t source, uint32_t destination,
                             struct route_refusal *why);

/**
 * End the route, if there is one. Returns ROUTE_UNBOUND, or else what the state is, with the cause
 * in *why.
 */
enum route_state router_unbind(struct session *session, uint32_t source, uint32_t destination,
                               struct route_refusal *why);

/* --- for queues, beside the hooks of queue.h and pool.h --- */

/** Is it the source or the destination of a route that is listed? Then it must not be destroyed. */
bool router_uses(const struct queue *queue);

/** A slot has become free in a segment: the routes that wait for one there try again. */
void router_slot_freed(struct segment *segment);

/**
 * The session ends: a route that it has bound has no binder any more, and goes if its queues have
 * gone. True: there was none left.
 */
bool router_session_gone(struct peer *peer);
