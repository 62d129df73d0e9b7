#include "daemon/buffers/route_query.h"

#include "daemon/buffers/queue.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"
#include "daemon/buffers/route_index.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

#define QUERY_SOURCE      0u
#define QUERY_DESTINATION 1u
#define QUERY_BOTH        2u

/* Where the routes are that a query is about: in this list, from `at` on, as long as ... */
struct range {
    struct route_list *list;
    struct route *at;               /* NULL: there are no more */
    bool by_source, by_destination; /* ... the source, or the destination, is that of the query */
};

/* One that was looked at last: many routes have the same queue. */
struct looker {
    const struct session *session;
    const struct relay *relay;
    bool attached;
};

static bool is_attached(struct looker *l, const struct relay *relay)
{
    if (relay && relay != l->relay) {
        l->relay = relay;
        l->attached = queue_attachment(l->session, relay->queue) != NULL;
    }
    return relay && l->attached;
}

/* A route is shown by its source to sessions that are attached to the source or have bound it. */
static bool may_see(struct looker *l, const struct range *range, const struct route *route)
{
    if (route->binder && route->binder == l->session->peer)
        return true;
    return (!(range->by_destination && !range->by_source) && is_attached(l, route->source)) ||
           (!(range->by_source && !range->by_destination) && is_attached(l, route->destination));
}

static struct route *find_begin(struct route_list *list, const struct route_query *query)
{
    uint32_t after = query->after_source;

    switch (query->mode) {
    case QUERY_SOURCE:
        if (!query->goes_on || after < query->source)
            return route_list_find(list, query->source, 0, 0);
        return after > query->source
                   ? NULL
                   : route_list_find(list, after, query->after_destination, UINT64_MAX);
    case QUERY_DESTINATION:
        if (!query->goes_on)
            return route_list_find(list, query->destination, 0, 0);
        /* Of the same source, only what goes to a later destination. */
        return route_list_find(list, query->destination, after,
                               query->destination > query->after_destination ? 0 : UINT64_MAX);
    case QUERY_BOTH:
        if (query->goes_on &&
            (after > query->source ||
             (after == query->source && query->after_destination >= query->destination)))
            return NULL;
        return route_list_find(list, query->source, query->destination, 0);
    default:
        return query->goes_on ? route_list_find(list, after, query->after_destination, UINT64_MAX)
                              : route_list_find(list, 0, 0, 0);
    }
}

static struct range range_of(struct route_index *index, const struct route_query *query)
{
    struct range range = {
        .by_source = query->mode == QUERY_SOURCE || query->mode == QUERY_BOTH,
        .by_destination = query->mode == QUERY_DESTINATION || query->mode == QUERY_BOTH,
    };

    if (range.by_source)
        range.list = &index->by_source;
    else if (range.by_destination)
        range.list = &index->by_destination;
    else
        range.list = &index->abnormal;
    range.at = find_begin(range.list, query);
    return range;
}

/* The next one, or NULL. */
static const struct route *next_route(struct range *range, const struct route_query *query)
{
    struct route *route = range->at;
    const struct route_name *name = route ? &route->name : NULL;

    if (route)
        range->at = route_list_next(range->list, route);

    if (!route || (range->by_source && name->source != query->source) ||
        (range->by_destination && name->destination != query->destination))
        return NULL;
    return route;
}

size_t route_query_find(struct session *session, const struct route_query *query,
                        const struct route **routes, size_t n, bool *more)
{
    struct looker looker = {.session = session};
    struct route_index *index = route_index_of(session->server->router, session->uid);
    const struct route *route;
    struct range range;
    size_t found = 0;

    *more = false;
    if (!session->peer || !index)
        return 0;
    range = range_of(index, query);
    while (!*more && (route = next_route(&range, query))) {
        if (route->state == ROUTE_UNBOUND || !may_see(&looker, &range, route))
            continue;
        *more = found == n;
        if (!*more)
            routes[found++] = route;
    }
    return found;
}
