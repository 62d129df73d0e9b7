/* Which routes a session may see. Control thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct route;
struct session;

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
size_t route_query_find(struct session *session, const struct route_query *query,
                        const struct route **found, size_t n, bool *more);
