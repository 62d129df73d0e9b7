/*
 * What a route still had to deliver when its destination went: thousands of messages, each of many
 * buffers. They are dropped in steps of the route's user, which is charged for the backlog until
 * then. Control thread.
 *
 * queue_rest.h does that for a ring. Besides the steps, which are the scheduler's, the two have
 * nothing in common: messages of a ring are references that keep the number of the ring, and may
 * move to another one; those of a backlog are shared with other routes.
 */
#pragma once

#include "daemon/base/schedule.h"
#include "daemon/core/backlog.h"

struct route;
struct router;
struct user;

struct route_rest {
    struct router *router;
    struct user *user;
    struct backlog backlog;
    struct job job;
    struct route_rest *prev, *next; /* router->rests */
};

/** No destination gets the backlog of the route: its messages are dropped, and it is empty. */
void route_rest_begin(struct route *route);

/** npud ends: drop all that is left of any route. */
void route_rests_deinit(struct router *router);
