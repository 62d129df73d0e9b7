/*
 * What programs describe queues and routes with: attributes of a queue, a route (a pair of queues),
 * lists of routes, and what to look for. They are memory of this process alone, npud never hears of
 * them, and nothing locks them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_tdt_queue.h"
#include "proto/shm/queue_shm.h"

#define QUEUE_DEPTH_DEFAULT 8

struct tagMemQueueAttr {
    char name[QUEUE_NAME]; /* ends with a NUL; "": none */
    uint32_t depth;        /* as it was set, whether or not a queue can have it */
};

struct acltdtQueueRoute {
    uint32_t src, dst; /* ids of queues, unchecked */
    int32_t status;    /* ACL_TDT_QUEUE_ROUTE_* */
};

/* Duplicates are kept, in the order in which they came. Empty with n = 0, whatever the room. */
struct acltdtQueueRouteList {
    struct acltdtQueueRoute *routes;
    size_t n, room;
};

struct acltdtQueueRouteQueryInfo {
    uint32_t mode;       /* an acltdtQueueRouteQueryMode, or what a program took for one */
    uint32_t src, dst;   /* ids of queues, unchecked */
    uint32_t configured; /* which of these have been set: ROUTE_QUERY_HAS() */
};

/** The bit in `configured` of a field, by its acltdtQueueRouteQueryInfoParamType. */
#define ROUTE_QUERY_HAS(type) (UINT32_C(1) << (type))

/**
 * Put a copy of the route at the end of the list. 0, or ACL_ERROR_BAD_ALLOC with the list as it
 * was.
 */
int queue_object_add_route(struct acltdtQueueRouteList *list, const struct acltdtQueueRoute *route,
                           const char *function);
