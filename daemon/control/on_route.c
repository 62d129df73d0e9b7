/* Requests about routes. */
#include "daemon/core/call.h"

#include "daemon/buffers/queue.h"
#include "daemon/buffers/route_bell.h"
#include "daemon/buffers/route_query.h"
#include "daemon/buffers/router.h"
#include "daemon/control/held_request.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/wire/packet.h"

int32_t on_queue_bell(struct call *call)
{
    uint32_t number = call->request->queue_bell->number;
    struct queue *queue = queue_by_number(call->session->server, number);
    struct queue_attach *attach = queue_attachment(call->session, queue);
    enum cause cause = attach ? route_bell_get(attach, &call->fd) : CAUSE_QUEUE_NOT_ROUTED;

    return refuse(call, cause, "ring %u cannot be watched", number);
}

/* --- replies with routes --- */

static void reply_begin(struct call *call)
{
    Npud__RoutesReply *out = CALL_REPLY(call, routes, ROUTES);

    out->routes = call->body->parts.routes.list;
}

static void reply_add(struct call *call, uint32_t source, uint32_t destination,
                      enum route_state state)
{
    Npud__RoutesReply *out = call->reply.routes;
    Npud__Route *row = &call->body->parts.routes.row[out->n_routes];

    *row = (Npud__Route)NPUD__ROUTE__INIT;
    row->source = source;
    row->destination = destination;
    row->status = (int32_t)state;
    out->routes[out->n_routes++] = row;
}

/* --- bind, unbind --- */

typedef enum route_state change_fn(struct session *session, uint32_t source, uint32_t destination,
                                   struct route_refusal *why);

static void explain_route(struct call *call, const struct route_refusal *why, uint32_t source,
                          uint32_t destination)
{
    if (why->of_queue)
        refuse_explain(call, why->cause, "queue %u", why->queue);
    else
        refuse_explain(call, why->cause, "route from queue %u to %u", source, destination);
}

/*
 * Some of them, from the one on that the turn before has come to: the request has what each has
 * become. False: there are more, and the request has another turn.
 */
static bool change_some(struct call *call, Npud__Route **routes, size_t n, change_fn *fn)
{
    struct room_wait *wait = call->wait;
    struct route_refusal why;

    while (wait->done < n) {
        Npud__Route *route = routes[wait->done++];

        route->status = (int32_t)fn(call->session, route->source, route->destination, &why);
        if (wait->done < n && schedule_late(&call->session->server->schedule))
            return false;
    }
    return true;
}

/*
 * The sentence is that of the first one that did not become `wanted`: it is asked for once more. It
 * may become that by now.
 */
static void explain_first(struct call *call, Npud__Route **routes, size_t n, change_fn *fn,
                          enum route_state wanted)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t source = routes[i]->source, destination = routes[i]->destination;
        struct route_refusal why;

        if (routes[i]->status == (int32_t)wanted)
            continue;
        routes[i]->status = (int32_t)fn(call->session, source, destination, &why);
        if (routes[i]->status == (int32_t)wanted)
            continue;
        explain_route(call, &why, source, destination);
        return;
    }
}

static int32_t change_routes(struct call *call, Npud__Route **routes, size_t n, change_fn *fn,
                             enum route_state wanted)
{
    if (n > ROUTES_MAX)
        return refuse(call, CAUSE_ROUTES_OF_REQUEST, "%zu routes", n);
    if (!change_some(call, routes, n, fn))
        return refuse(call, CAUSE_ROUTES_GO_ON, "%u of %zu routes", call->wait->done, n);
    explain_first(call, routes, n, fn, wanted);
    reply_begin(call);
    for (size_t i = 0; i < n; i++)
        reply_add(call, routes[i]->source, routes[i]->destination,
                  (enum route_state)routes[i]->status);
    return 0;
}

int32_t on_bind_routes(struct call *call)
{
    const Npud__BindRoutes *in = call->request->bind_routes;

    return change_routes(call, in->routes, in->n_routes, router_bind, ROUTE_BOUND);
}

int32_t on_unbind_routes(struct call *call)
{
    const Npud__UnbindRoutes *in = call->request->unbind_routes;

    return change_routes(call, in->routes, in->n_routes, router_unbind, ROUTE_UNBOUND);
}

/* --- query --- */

int32_t on_query_routes(struct call *call)
{
    const Npud__QueryRoutes *in = call->request->query_routes;
    const struct route *found[ROUTES_MAX];
    struct route_query query = {
        .mode = in->mode, .source = in->source, .destination = in->destination};
    bool more;
    size_t n;

    if (in->after) {
        query.goes_on = true;
        query.after_source = in->after->source;
        query.after_destination = in->after->destination;
    }
    n = route_query_find(call->session, &query, found, ROUTES_MAX, &more);
    reply_begin(call);
    for (size_t i = 0; i < n; i++)
        reply_add(call, found[i]->name.source, found[i]->name.destination, found[i]->state);
    call->reply.routes->more = more;
    return 0;
}
