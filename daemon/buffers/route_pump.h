/*
 * Moving messages along routes (router.h): in slices, between which everybody else has his turn.
 * Control thread.
 */
#pragma once

struct relay;
struct route;
struct router;
struct segment;

/** The relay may have something to do. */
void route_pump_ready(struct relay *relay);

/**
 * The same, and its routes that wait for a slot try again: the client that freed one may have
 * stopped before it told npud.
 */
void route_pump_try_again(struct relay *relay);

/** It goes: nobody is to ring for it. */
void route_pump_forget(struct relay *relay);

/** Take what is in the ring of a source that is about to go, as far as its destinations take it. */
void route_pump_empty(struct relay *relay);

/** Its destination has gone: free what is in the backlog. */
void route_drop_backlog(struct route *route);

/** All relays that wait for memory, and all routes that wait for a slot, try again. */
void route_pump_unstarve(struct router *router);

/** A slot without data has become free in this segment: the routes that wait for one try again. */
void route_pump_slot_freed(struct router *router, const struct segment *segment);

/** The relay has a new ring. */
void route_pump_moved(struct relay *relay);

/** npud ends: free what it keeps for the next message. */
void route_pump_free_spare(struct router *router);

/** Timer of the router: one slice. */
void route_pump_turn(int fd, short what, void *router);
