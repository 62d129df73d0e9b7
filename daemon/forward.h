/*
 * Moving messages along routes (router.h): in slices, between which everybody else has his turn. Control thread.
 */
#pragma once

struct relay;
struct route;
struct router;

/** The relay may have something to do. */
void relay_ready(struct relay *relay);

/** It will not be there any more: the pending message is dropped, nobody is to ring for it. */
void relay_forget(struct relay *relay);

/** Take what is in the ring of a source that is about to go, as far as its destinations take it. */
void relay_empty(struct relay *relay);

/** The route is no more to get the pending message of its source. */
void route_not_due(struct route *route);

/** Its destination has gone: free what is in the backlog. */
void route_drop_backlog(struct route *route);

/** Who waits for a slot tries again. */
void router_unstarve(struct router *router);

/** Timer of the router: one slice. */
void router_turn(int fd, short what, void *router);
