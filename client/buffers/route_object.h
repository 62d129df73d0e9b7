/*
 * Descriptions of routes: pairs of queues, lists of them, and what to look for. They are memory of
 * this process alone, npud never hears of them, and nothing locks them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_tdt_queue.h"

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
int route_object_add(struct acltdtQueueRouteList *list, const struct acltdtQueueRoute *route,
                     const char *function);
