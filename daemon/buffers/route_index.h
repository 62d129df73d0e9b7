/*
 * The routes of a user in the order in which its sessions ask for them. A user may have 65,536
 * routes: a query goes through those that it is about. Control thread.
 */
#pragma once

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"

struct route;
struct route_name;
struct route_node;
struct router;

RB_HEAD(route_tree, route_node);

/**
 * Sorted; routes with the same pair of queues by number. A tree whose nodes are in the routes: what
 * changes it costs little, however many there are, and cannot fail.
 */
struct route_list {
    struct route_tree tree;
    unsigned nodes;      /* which node of a route is of this list */
    bool by_destination; /* and then by source; else the other way round */
};

struct route_index {
    uid_t uid; /* of the queues */
    struct route_list by_source, by_destination;
    struct route_list abnormal; /* ROUTE_ABNORMAL; by source */
    UT_hash_handle hh;          /* router->by_user */
};

/** The routes of the user, or NULL: there are none. */
struct route_index *route_index_of(const struct router *router, uid_t uid);

/** A route with a name; not abnormal. False: no memory. */
bool route_index_add(struct router *router, struct route *route);
void route_index_remove(struct router *router, struct route *route);

/** The route's state has changed to or from ROUTE_ABNORMAL. Cannot fail. */
void route_index_set_abnormal(struct router *router, struct route *route, bool abnormal);

/**
 * The first route with this name, by number, and the one after that; or NULL. There is more than
 * one only when queues have gone and others have got their ids.
 */
struct route *route_index_find(const struct router *router, const struct route_name *name);
struct route *route_index_next(struct route *route);

/**
 * The first route of the list that is not before this: the queue by which it is sorted, the other
 * one, and the number of the route. NULL: there is none.
 */
struct route *route_list_find(struct route_list *list, uint32_t first, uint32_t second,
                              uint64_t number);
/** The one after this, or NULL. */
struct route *route_list_next(struct route_list *list, struct route *route);
