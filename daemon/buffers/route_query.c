#include "daemon/buffers/route_query.h"

#include <utlist.h>

#include "daemon/base/array.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"
#include "daemon/core/session.h"

#define QUERY_SOURCE      0u
#define QUERY_DESTINATION 1u
#define QUERY_BOTH        2u
#define QUERY_ABNORMAL    100u

/* What was found so far: the first `room` of all, ascending. */
struct found {
    const struct route_query *query;
    uid_t uid; /* whose */
    const struct route **routes;
    size_t n, room;
    bool more;
};

static int compare_names(const struct route_name *a, const struct route_name *b)
{
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return a->destination < b->destination ? -1 : a->destination > b->destination;
}

static int compare_routes(const void *x, const void *y)
{
    const struct route *a = *(const struct route *const *)x, *b = *(const struct route *const *)y;
    int r = compare_names(&a->named->name, &b->named->name);

    return r != 0 ? r : a->number < b->number ? -1 : a->number > b->number;
}

static bool matches_query(const struct found *f, const struct route *route)
{
    const struct route_query *query = f->query;
    const struct route_name *name = &route->named->name;
    struct route_name after = {.source = query->after_source,
                               .destination = query->after_destination};

    if (route->state == ROUTE_UNBOUND || name->uid != f->uid ||
        (query->goes_on && compare_names(name, &after) <= 0))
        return false;
    switch (query->mode) {
    case QUERY_SOURCE:
        return name->source == query->source;
    case QUERY_DESTINATION:
        return name->destination == query->destination;
    case QUERY_BOTH:
        return name->source == query->source && name->destination == query->destination;
    default:
        return route->state == ROUTE_ABNORMAL;
    }
}

/* The same may be offered again, as it is found in more than one list. */
static void offer_route(struct found *f, const struct route *route)
{
    size_t from;

    if (!matches_query(f, route))
        return;
    from = array_lower_bound(f->routes, f->n, sizeof(struct route *), &route, compare_routes);
    if (from < f->n && f->routes[from] == route)
        return;
    if (f->n == f->room) {
        f->more = true;
        if (from == f->n)
            return;
        f->n--;
    }
    for (size_t i = f->n; i > from; i--)
        f->routes[i] = f->routes[i - 1];
    f->routes[from] = route;
    f->n++;
}

static void offer_all(struct found *f, const struct relay *relay)
{
    const struct route *route;

    if (!relay)
        return;
    DL_FOREACH2 (relay->out, route, out_next)
        offer_route(f, route);
    DL_FOREACH2 (relay->in, route, in_next)
        offer_route(f, route);
}

static void offer_of(struct found *f, struct session *session, uint32_t id)
{
    struct queue_attach *attach = queue_attached(session, id);

    if (attach)
        offer_all(f, attach->queue->route);
}

size_t route_query_find(struct session *session, const struct route_query *query,
                        const struct route **routes, size_t n, bool *more)
{
    struct found f = {.query = query, .uid = session->uid, .routes = routes, .room = n};
    struct queue_attach *attach;
    struct route *route;

    *more = false;
    if (!session->peer)
        return 0;
    if (query->mode == QUERY_SOURCE || query->mode == QUERY_BOTH)
        offer_of(&f, session, query->source);
    if (query->mode == QUERY_DESTINATION || query->mode == QUERY_BOTH)
        offer_of(&f, session, query->destination);
    if (query->mode == QUERY_ABNORMAL)
        DL_FOREACH (session->peer->attached, attach)
            offer_all(&f, attach->queue->route);
    DL_FOREACH2 (session->peer->routes, route, bound_next)
        offer_route(&f, route);
    *more = f.more;
    return f.n;
}
