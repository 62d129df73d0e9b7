#include "daemon/buffers/router.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"
#include "daemon/buffers/route_bell.h"
#include "daemon/buffers/route_index.h"
#include "daemon/buffers/route_pump.h"
#include "daemon/buffers/route_rest.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

/* A route joins queues of one user, and is that user's. */
static struct route_name name_of(const struct session *session, uint32_t source,
                                 uint32_t destination)
{
    return (struct route_name){.uid = session->uid, .source = source, .destination = destination};
}

/* --- requests --- */

static enum route_state refuse_queue(struct route_refusal *why, enum cause cause, uint32_t queue)
{
    *why = (struct route_refusal){.cause = cause, .of_queue = true, .queue = queue};
    return ROUTE_UNBOUND;
}

static bool attached_to(const struct session *session, const struct relay *relay)
{
    return relay && queue_attachment(session, relay->queue);
}

static bool bound_by(const struct session *session, const struct route *route)
{
    return route->binder && route->binder == session->peer;
}

static bool is_visible(const struct session *session, const struct route *route)
{
    return route->name.uid == session->uid &&
           (bound_by(session, route) || attached_to(session, route->source) ||
            attached_to(session, route->destination));
}

/* The route that the session means: one with both ends before one that has lost an end. */
static struct route *find_listed(struct session *session, const struct route_name *name)
{
    struct route *route = route_index_find(session->server->router, name), *found = NULL;

    for (; route; route = route_index_next(route))
        if (route->state != ROUTE_UNBOUND && is_visible(session, route) &&
            (!found || route->state == ROUTE_BOUND))
            found = route;
    return found;
}

/* One that still delivers what it has, and can go on. */
static struct route *find_ended(struct router *router, const struct route_name *name,
                                struct relay *source, struct relay *destination)
{
    struct route *route = source && destination ? route_index_find(router, name) : NULL;

    for (; route; route = route_index_next(route))
        if (route->source == source && route->destination == destination &&
            route->state == ROUTE_UNBOUND)
            return route;
    return NULL;
}

/* Why the session may not bind a route to or from that queue. */
static enum cause cause_of_queue(const struct session *session, const struct queue_attach *attach)
{
    if (!attach || attach->queue->ends)
        return CAUSE_QUEUE_NOT_ATTACHED;
    if (attach->queue->user != session->user)
        return CAUSE_ROUTE_OF_OTHER_USER;
    return attach->rights & QUEUE_MANAGE ? CAUSE_NONE : CAUSE_QUEUE_NOT_MANAGED;
}

static void bind_route(struct session *session, struct route *route)
{
    route_set_state(route, ROUTE_BOUND);
    route->binder = session->peer;
    DL_APPEND2(route->binder->routes, route, bound_prev, bound_next);
    route->destination->gone = 0;
    kept_touch(&route->destination->kept);
    relay_tell_queue(route->source);
    relay_tell_queue(route->destination);
    KILL_HERE(ROUTE_BOUND);
    relay_make_ready(route->source);
}

static enum cause bind_new(struct session *session, struct queue *from, struct queue *to,
                           const struct route_name *name)
{
    struct relay *source = relay_get(from), *destination = relay_get(to);
    struct route *route = find_ended(session->server->router, name, source, destination);
    enum cause cause = source && destination ? CAUSE_NONE : CAUSE_MEMORY;

    if (cause == CAUSE_NONE && !route)
        cause = route_new(session, source, destination, name, &route);
    else if (cause == CAUSE_NONE && !route_prepare_gap(route))
        cause = CAUSE_MEMORY;
    if (cause == CAUSE_NONE) {
        bind_route(session, route);
    } else {
        relay_check_used(source);
        relay_check_used(destination);
    }
    return cause;
}

enum route_state router_bind(struct session *session, uint32_t source, uint32_t destination,
                             struct route_refusal *why)
{
    struct queue_attach *from = queue_attached(session, source);
    struct queue_attach *to = queue_attached(session, destination);
    struct route_name name = name_of(session, source, destination);
    struct route *route = find_listed(session, &name);

    *why = (struct route_refusal){0};
    if (route && route->state == ROUTE_BOUND)
        return ROUTE_BOUND;
    if (route) {
        why->cause = CAUSE_ROUTE_BROKEN;
        return ROUTE_ABNORMAL;
    }
    if (cause_of_queue(session, from) != CAUSE_NONE)
        return refuse_queue(why, cause_of_queue(session, from), source);
    if (cause_of_queue(session, to) != CAUSE_NONE)
        return refuse_queue(why, cause_of_queue(session, to), destination);
    if (source == destination)
        return refuse_queue(why, CAUSE_ROUTE_TO_ITSELF, source);
    if (from->queue->route && from->queue->route->n_in > 0)
        return refuse_queue(why, CAUSE_ROUTE_FROM_DESTINATION, source);
    if (to->queue->route && to->queue->route->n_out > 0)
        return refuse_queue(why, CAUSE_ROUTE_TO_SOURCE, destination);
    why->cause = bind_new(session, from->queue, to->queue, &name);
    return why->cause == CAUSE_NONE ? ROUTE_BOUND : ROUTE_UNBOUND;
}

static void unbind_route(struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;
    bool bound = route->state == ROUTE_BOUND;

    route_set_state(route, ROUTE_UNBOUND);
    route_leave_binder(route);
    KILL_HERE(ROUTE_UNBOUND);
    if (bound) {
        relay_tell_queue(source);
        relay_tell_queue(destination);
    }
    /* It may have been this one that the others had to wait for. */
    if (source)
        relay_make_ready(source);
    route_check_over(route);
    route_reap(route->router);
}

enum route_state router_unbind(struct session *session, uint32_t source, uint32_t destination,
                               struct route_refusal *why)
{
    struct queue_attach *from = queue_attached(session, source);
    struct queue_attach *to = queue_attached(session, destination);
    struct route_name name = name_of(session, source, destination);
    struct route *route = find_listed(session, &name);

    *why = (struct route_refusal){0};
    if (!route)
        return ROUTE_UNBOUND;
    if (!bound_by(session, route) && !(from && from->rights & QUEUE_MANAGE) &&
        !(to && to->rights & QUEUE_MANAGE)) {
        why->cause = CAUSE_ROUTE_OF_OTHERS;
        return route->state;
    }
    unbind_route(route);
    return ROUTE_UNBOUND;
}

/* --- what happens to queues and sessions --- */

bool router_uses(const struct queue *queue)
{
    const struct relay *relay = queue->route;
    const struct route *route;

    if (!relay)
        return false;
    DL_FOREACH2 (relay->out, route, out_next)
        if (route->state != ROUTE_UNBOUND)
            return true;
    DL_FOREACH2 (relay->in, route, in_next)
        if (route->state != ROUTE_UNBOUND)
            return true;
    return false;
}

/* Its destinations have one producer less: npud, on behalf of the producers of the source. */
static void lose_source(struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;
    bool bound = route->state == ROUTE_BOUND;

    if (bound)
        route_set_state(route, ROUTE_ABNORMAL);
    route_leave_source(route);
    if (bound) {
        destination->gone = source->queue->puts.pid;
        kept_touch(&destination->kept);
    }
    route_check_over(route);
}

static void lose_destination(struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;
    bool bound = route->state == ROUTE_BOUND;

    if (bound)
        route_set_state(route, ROUTE_ABNORMAL);
    route_forgo(route);
    if (route->backlog.n > 0)
        route_rest_begin(route);
    route_leave_destination(route);
    if (bound && source) {
        source->queue->routes_from = source->n_out;
        if (source->n_out == 0)
            queue_party_left(source->queue, QUEUE_TAKE, destination->queue->takes.pid);
    }
    if (source)
        relay_make_ready(source);
    route_check_over(route);
}

static bool has_routes(const struct queue *queue)
{
    return queue->route && (queue->route->out || queue->route->in);
}

/* At least one, until the step is over. False: there are more. The relay may go with the last. */
static bool part_routes(struct queue *queue)
{
    while (has_routes(queue)) {
        struct relay *relay = queue->route;

        if (relay->out)
            lose_source(relay->out);
        else
            lose_destination(relay->in);
        route_reap(queue->server->router);
        if (schedule_late(&queue->server->schedule))
            break;
    }
    return !has_routes(queue);
}

static bool on_ending(struct queue *queue)
{
    struct relay *relay = queue->route;

    if (!relay)
        return true;
    if (!relay->parting && (queue->rest || !route_pump_ending(relay)))
        return false;
    relay->parting = true;
    kept_touch(&relay->kept);
    return part_routes(queue);
}

static void on_gone(struct queue *queue)
{
    struct relay *relay = queue->route;
    struct route *route, *next;

    if (!relay)
        return;
    if (!relay->parting)
        route_pump_empty(relay);
    DL_FOREACH_SAFE2 (relay->out, route, next, out_next)
        lose_source(route);
    DL_FOREACH_SAFE2 (relay->in, route, next, in_next)
        lose_destination(route);
    relay_free(relay);
    route_reap(queue->server->router);
    /* What the queue was charged for is given back soon. */
    relay_unstarve_all(queue->server->router);
}

/* The old ring's eventfd is of no use to sessions that have a right to the new ring only. */
static void on_moved(struct queue *queue)
{
    struct relay *relay = queue->route;

    if (!relay)
        return;
    route_pump_moved(relay);
    relay_close_bell(relay);
    relay_make_ready(relay);
}

static void on_stirred(struct queue *queue)
{
    if (queue->route)
        relay_make_ready(queue->route);
}

void router_slot_freed(struct segment *segment)
{
    route_slot_freed(segment);
}

bool router_session_gone(struct peer *peer)
{
    struct router *router = peer->session->server->router;
    struct route *route = peer->routes;

    if (!route) {
        relay_unstarve_all(router);
        return true;
    }
    route_leave_binder(route);
    route_check_over(route);
    route_reap(router);
    return false;
}

int router_init(struct server *server)
{
    struct router *router = server->router;

    *router = (struct router){.server = server, .turn = route_pump_turn};
    /* A quarter of a megabyte of which only the pages with segments in them are ever touched. */
    router->held = calloc(SEGMENT_IDS, sizeof(*router->held));
    relays_init(router, &server->schedule.own);
    if (!router->held)
        return -ENOMEM;
    server->queues->on_ending = on_ending;
    server->queues->on_gone = on_gone;
    server->queues->on_moved = on_moved;
    server->queues->on_stirred = on_stirred;
    server->queues->on_leaving = route_bell_close;
    return 0;
}

void router_deinit(struct server *server)
{
    route_rests_deinit(server->router);
    relays_deinit(server->router);
    message_free_spare(server->router);
    free(server->router->held);
    server->router->held = NULL;
}

bool router_holds(struct server *server, uint32_t segment)
{
    return server->router->held[segment] > 0;
}
