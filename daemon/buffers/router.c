#include "daemon/buffers/router.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/buffers/route_pump.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

/* --- relays --- */

static struct relay *relay_get(struct queue *queue)
{
    struct relay *relay = queue->route;

    if (relay)
        return relay;
    relay = calloc(1, sizeof(*relay));
    if (!relay)
        return NULL;
    relay->server = queue->server;
    relay->queue = queue;
    relay->bell = -1;
    queue->route = relay;
    return relay;
}

static void close_bell(struct relay *relay)
{
    if (relay->on_bell)
        event_free(relay->on_bell);
    if (relay->bell >= 0)
        close(relay->bell);
    charge_deinit(&relay->charge_bell);
    relay->on_bell = NULL;
    relay->bell = -1;
}

static void relay_free(struct relay *relay)
{
    route_pump_forget(relay);
    close_bell(relay);
    relay->queue->route = NULL;
    free(relay);
}

/*
 * Once clients have the eventfd it stays that of the ring: they would not ask again when there is
 * another route.
 */
static void relay_check(struct relay *relay)
{
    if (relay && !relay->out && !relay->in && relay->bell < 0)
        relay_free(relay);
}

/*
 * Who may ring could also have filled the counter, or made its descriptor a blocking one, which is
 * the same for all: so the counter is emptied, and not by a read that could block.
 */
static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    struct relay *relay = arg;
    eventfd_t count;
    struct iovec iov = {.iov_base = &count, .iov_len = sizeof(count)};

    (void)what;
    if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP)
        eventfd_read(fd, &count);
    route_pump_try_again(relay);
}

int router_bell(struct queue *queue)
{
    struct relay *relay = queue->route;

    if (!relay)
        return -ENOENT;
    route_pump_ready(relay);
    if (relay->bell >= 0)
        return relay->bell;
    if (charge_init(&relay->charge_bell, &queue->server->users, queue->user, RESOURCE_FDS, 1) < 0)
        return -EDQUOT;
    relay->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (relay->bell >= 0)
        relay->on_bell =
            event_new(queue->server->base, relay->bell, EV_READ | EV_PERSIST, on_bell, relay);
    if (!relay->on_bell || event_add(relay->on_bell, NULL) < 0) {
        close_bell(relay);
        return -EMFILE;
    }
    return relay->bell;
}

/* --- names --- */

static struct route_namesakes *find_named(struct router *router, const struct route_name *name)
{
    struct route_namesakes *named;

    HASH_FIND(hh, router->by_name, name, sizeof(*name), named);
    return named;
}

static bool add_named(struct router *router, struct route *route, const struct route_name *name)
{
    struct route_namesakes *named = find_named(router, name);

    if (!named) {
        named = calloc(1, sizeof(*named));
        if (!named)
            return false;
        named->name = *name;
        HASH_ADD(hh, router->by_name, name, sizeof(named->name), named);
        if (!named->hh.tbl) {
            free(named);
            return false;
        }
    }
    DL_APPEND2(named->routes, route, same_prev, same_next);
    route->named = named;
    return true;
}

static void remove_named(struct router *router, struct route *route)
{
    struct route_namesakes *named = route->named;

    DL_DELETE2(named->routes, route, same_prev, same_next);
    if (named->routes)
        return;
    HASH_DEL(router->by_name, named);
    free(named);
}

/* The session means its own queues, or those that it is attached to. */
static struct route_name name_of(const struct session *session, const struct queue_attach *source,
                                 uint32_t source_id, uint32_t destination_id)
{
    return (struct route_name){.uid = source ? source->queue->user->uid : session->uid,
                               .source = source_id,
                               .destination = destination_id};
}

/* --- life of a route --- */

/* Does npud put messages there, were it only the last ones of a route that has ended? */
static bool puts_there(const struct relay *relay)
{
    const struct route *route;

    if (relay->n_in > 0 || relay->waiting)
        return true;
    DL_FOREACH2 (relay->in, route, in_next)
        if (route->backlog.n > 0)
            return true;
    return false;
}

/* What is new for who waits there. */
static void tell(struct relay *relay)
{
    relay->queue->routes_from = relay->n_out;
    relay->queue->routes_to = relay->n_in > 0 ? relay->n_in : puts_there(relay);
    queue_routed(relay->queue);
}

/*
 * The last message of the last route into there has been delivered: who waits for another one
 * learns why none will come.
 */
static void check_puts(struct relay *relay)
{
    if (relay->n_in > 0)
        relay->queue->routes_to = relay->n_in;
    if (relay->queue->routes_to == 0 || puts_there(relay))
        return;
    if (relay->gone == 0) {
        tell(relay);
        return;
    }
    relay->queue->routes_to = 0;
    queue_party_left(relay->queue, QUEUE_PUT, relay->gone);
    relay->gone = 0;
}

static void set_state(struct route *route, enum route_state state)
{
    uint32_t was = route->state == ROUTE_BOUND, is = state == ROUTE_BOUND;

    route->state = state;
    if (was == is)
        return;
    route->source->n_out += is - was;
    route->destination->n_in += is - was;
}

static struct route *route_new(struct session *session, struct relay *source,
                               struct relay *destination, const struct route_name *name)
{
    struct server *server = session->server;
    struct router *router = server->router;
    struct route *route = calloc(1, sizeof(*route));

    if (!route)
        return NULL;
    if (charge_init(&route->charge, &server->users, session->user, RESOURCE_ROUTES, 1) < 0 ||
        !add_named(router, route, name)) {
        charge_deinit(&route->charge);
        free(route);
        return NULL;
    }
    route->user = user_ref(&server->users, session->uid);
    route->router = router;
    route->number = ++router->last_route;
    route->source = source;
    route->destination = destination;
    DL_APPEND(router->all, route);
    DL_APPEND2(source->out, route, out_prev, out_next);
    DL_APPEND2(destination->in, route, in_prev, in_next);
    return route;
}

static void leave_binder(struct route *route)
{
    if (route->binder)
        DL_DELETE2(route->binder->routes, route, bound_prev, bound_next);
    route->binder = NULL;
}

static void leave_source(struct route *route)
{
    DL_DELETE2(route->source->out, route, out_prev, out_next);
    route->source = NULL;
}

static void leave_destination(struct route *route)
{
    route_drop_backlog(route);
    DL_DELETE2(route->destination->in, route, in_prev, in_next);
    route->destination = NULL;
}

static bool is_over(const struct route *route)
{
    if (route->state == ROUTE_UNBOUND)
        return route->backlog.n == 0;
    return route->state == ROUTE_ABNORMAL && !route->binder && !route->source &&
           !route->destination;
}

void route_settle(struct route *route)
{
    if (route->state != ROUTE_BOUND && route->destination)
        check_puts(route->destination);
    if (route->over || !is_over(route))
        return;
    route->over = true;
    LL_PREPEND2(route->router->over, route, over_next);
}

static void route_free(struct router *router, struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;

    leave_binder(route);
    if (source)
        leave_source(route);
    if (destination)
        leave_destination(route);
    relay_check(source);
    relay_check(destination);
    backlog_deinit(&route->backlog);
    remove_named(router, route);
    DL_DELETE(router->all, route);
    charge_deinit(&route->charge);
    user_unref(&router->server->users, route->user);
    free(route);
}

void router_reap(struct router *router)
{
    struct route *route;

    while ((route = router->over)) {
        LL_DELETE2(router->over, route, over_next);
        route->over = false;
        if (is_over(route))
            route_free(router, route);
    }
}

/* --- requests --- */

__attribute__((format(printf, 3, 4))) static void say(char *why, size_t room, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, room, fmt, ap);
    va_end(ap);
}

static bool attached_to(const struct session *session, const struct relay *relay)
{
    struct queue_attach *a = relay ? queue_attached(session, relay->queue->id) : NULL;

    return a && a->queue == relay->queue;
}

static bool bound_by(const struct session *session, const struct route *route)
{
    return route->binder && route->binder == session->shared;
}

static bool visible(const struct session *session, const struct route *route)
{
    return bound_by(session, route) || attached_to(session, route->source) ||
           attached_to(session, route->destination);
}

/* The route that the session means: one with both ends before one that has lost an end. */
static struct route *find_listed(struct session *session, const struct route_name *name)
{
    struct route_namesakes *named = find_named(session->server->router, name);
    struct route *route, *found = NULL;

    if (!named)
        return NULL;
    DL_FOREACH2 (named->routes, route, same_next)
        if (route->state != ROUTE_UNBOUND && visible(session, route) &&
            (!found || route->state == ROUTE_BOUND))
            found = route;
    return found;
}

/* One that still delivers what it has, and can go on. */
static struct route *find_ended(struct relay *source, struct relay *destination)
{
    struct route *route;

    if (!source || !destination)
        return NULL;
    DL_FOREACH2 (destination->in, route, in_next)
        if (route->source == source && route->state == ROUTE_UNBOUND)
            return route;
    return NULL;
}

/* Of both queues. */
static bool manages(const struct queue_attach *attach, uint32_t id, char *why, size_t room)
{
    if (!attach)
        say(why, room, "this process is attached to no queue %u", id);
    else if (!(attach->rights & QUEUE_MANAGE))
        say(why, room, "this process may not manage queue %u", id);
    return attach && attach->rights & QUEUE_MANAGE;
}

static bool fits(const struct relay *source, uint32_t source_id, const struct relay *destination,
                 uint32_t destination_id, char *why, size_t room)
{
    if (source && source->n_in > 0)
        say(why, room,
            "queue %u is a destination, and so cannot be a source: routes are not "
            "chained",
            source_id);
    else if (destination && destination->n_out > 0)
        say(why, room,
            "queue %u is a source, and so cannot be a destination: routes are not "
            "chained",
            destination_id);
    else
        return true;
    return false;
}

static void bind_route(struct session *session, struct route *route)
{
    set_state(route, ROUTE_BOUND);
    route->binder = session->shared;
    DL_APPEND2(route->binder->routes, route, bound_prev, bound_next);
    route->destination->gone = 0;
    tell(route->source);
    tell(route->destination);
    route_pump_ready(route->source);
}

static enum route_state bind_new(struct session *session, struct queue *from, struct queue *to,
                                 const struct route_name *name, char *why, size_t room)
{
    struct relay *source = relay_get(from), *destination = relay_get(to);
    struct route *route = find_ended(source, destination);

    if (!route && source && destination)
        route = route_new(session, source, destination, name);
    if (!route) {
        relay_check(source);
        relay_check(destination);
        say(why, room,
            "no route from queue %u to %u: user %u has %llu, and may have %llu ([limits] routes)",
            name->source, name->destination, (unsigned)session->uid,
            (unsigned long long)session->user->used[RESOURCE_ROUTES],
            (unsigned long long)session->server->users.limit[RESOURCE_ROUTES]);
        return ROUTE_UNBOUND;
    }
    bind_route(session, route);
    return ROUTE_BOUND;
}

enum route_state router_bind(struct session *session, uint32_t source, uint32_t destination,
                             char *why, size_t room)
{
    struct queue_attach *from = queue_attached(session, source);
    struct queue_attach *to = queue_attached(session, destination);
    struct route_name name = name_of(session, from, source, destination);
    struct route *route = find_listed(session, &name);

    if (route && route->state == ROUTE_BOUND)
        return ROUTE_BOUND;
    if (route) {
        say(why, room,
            "the route from queue %u to %u has lost a queue and does not heal: unbind it first",
            source, destination);
        return ROUTE_ABNORMAL;
    }
    if (!manages(from, source, why, room) || !manages(to, destination, why, room))
        return ROUTE_UNBOUND;
    if (source == destination) {
        say(why, room, "queue %u cannot be routed to itself", source);
        return ROUTE_UNBOUND;
    }
    if (!fits(from->queue->route, source, to->queue->route, destination, why, room))
        return ROUTE_UNBOUND;
    return bind_new(session, from->queue, to->queue, &name, why, room);
}

static void unbind(struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;
    bool bound = route->state == ROUTE_BOUND;

    set_state(route, ROUTE_UNBOUND);
    leave_binder(route);
    if (bound) {
        tell(source);
        tell(destination);
    }
    /* It may have been this one that the others had to wait for. */
    if (source)
        route_pump_ready(source);
    route_settle(route);
    router_reap(route->router);
}

enum route_state router_unbind(struct session *session, uint32_t source, uint32_t destination,
                               char *why, size_t room)
{
    struct queue_attach *from = queue_attached(session, source);
    struct queue_attach *to = queue_attached(session, destination);
    struct route_name name = name_of(session, from ? from : to, source, destination);
    struct route *route = find_listed(session, &name);

    if (!route)
        return ROUTE_UNBOUND;
    if (!bound_by(session, route) && !(from && from->rights & QUEUE_MANAGE) &&
        !(to && to->rights & QUEUE_MANAGE)) {
        say(why, room,
            "this process has not bound the route from queue %u to %u, and may manage neither",
            source, destination);
        return route->state;
    }
    unbind(route);
    return ROUTE_UNBOUND;
}

/* --- queries --- */

#define QUERY_SOURCE      0u
#define QUERY_DESTINATION 1u
#define QUERY_BOTH        2u
#define QUERY_ABNORMAL    100u

/* What was found so far: the first `room` of all, ascending. */
struct found {
    const struct route_query *query;
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

static int compare(const struct route *a, const struct route *b)
{
    int r = compare_names(&a->named->name, &b->named->name);

    return r != 0 ? r : a->number < b->number ? -1 : a->number > b->number;
}

static bool matches(const struct route_query *query, const struct route *route)
{
    const struct route_name *name = &route->named->name;
    struct route_name after = {.source = query->after_source,
                               .destination = query->after_destination};

    if (route->state == ROUTE_UNBOUND || (query->goes_on && compare_names(name, &after) <= 0))
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
static void offer(struct found *f, const struct route *route)
{
    size_t from = 0, to = f->n;

    if (!matches(f->query, route))
        return;
    while (from < to) {
        size_t i = (from + to) / 2;
        int r = compare(f->routes[i], route);

        if (r == 0)
            return;
        if (r < 0)
            from = i + 1;
        else
            to = i;
    }
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
        offer(f, route);
    DL_FOREACH2 (relay->in, route, in_next)
        offer(f, route);
}

static void offer_of(struct found *f, struct session *session, uint32_t id)
{
    struct queue_attach *attach = queue_attached(session, id);

    if (attach)
        offer_all(f, attach->queue->route);
}

size_t router_query(struct session *session, const struct route_query *query,
                    const struct route **routes, size_t n, bool *more)
{
    struct found f = {.query = query, .routes = routes, .room = n};
    struct queue_attach *attach;
    struct route *route;

    *more = false;
    if (!session->shared)
        return 0;
    if (query->mode == QUERY_SOURCE || query->mode == QUERY_BOTH)
        offer_of(&f, session, query->source);
    if (query->mode == QUERY_DESTINATION || query->mode == QUERY_BOTH)
        offer_of(&f, session, query->destination);
    if (query->mode == QUERY_ABNORMAL)
        DL_FOREACH (session->shared->attached, attach)
            offer_all(&f, attach->queue->route);
    DL_FOREACH2 (session->shared->routes, route, bound_next)
        offer(&f, route);
    *more = f.more;
    return f.n;
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

/* Its destinations have one producer less: npud, for those who put into the source. */
static void lose_source(struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;
    bool bound = route->state == ROUTE_BOUND;

    if (bound)
        set_state(route, ROUTE_ABNORMAL);
    leave_source(route);
    if (bound)
        destination->gone = source->queue->puts.pid;
    route_settle(route);
}

static void lose_destination(struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;
    bool bound = route->state == ROUTE_BOUND;

    if (bound)
        set_state(route, ROUTE_ABNORMAL);
    leave_destination(route);
    if (bound && source) {
        source->queue->routes_from = source->n_out;
        if (source->n_out == 0)
            queue_party_left(source->queue, QUEUE_TAKE, destination->queue->takes.pid);
    }
    if (source)
        route_pump_ready(source);
    route_settle(route);
}

static void on_gone(struct queue *queue)
{
    struct relay *relay = queue->route;
    struct route *route, *next;

    if (!relay)
        return;
    route_pump_empty(relay);
    DL_FOREACH_SAFE2 (relay->out, route, next, out_next)
        lose_source(route);
    DL_FOREACH_SAFE2 (relay->in, route, next, in_next)
        lose_destination(route);
    relay_free(relay);
    router_reap(queue->server->router);
}

/* The old ring's eventfd is of no use for who has a right to the new one only. */
static void on_moved(struct queue *queue)
{
    struct relay *relay = queue->route;

    if (!relay)
        return;
    route_pump_moved(relay);
    close_bell(relay);
    route_pump_ready(relay);
}

static void on_stirred(struct queue *queue)
{
    if (queue->route)
        route_pump_ready(queue->route);
}

static void on_freed(struct segment *segment)
{
    route_pump_slot_freed(segment->pool->server->router, segment);
}

void router_session_gone(struct peer *peer)
{
    struct router *router = peer->session->server->router;

    while (peer->routes) {
        struct route *route = peer->routes;

        leave_binder(route);
        route_settle(route);
    }
    router_reap(router);
    route_pump_unstarve(router);
}

int router_init(struct server *server)
{
    struct router *router = server->router;

    *router = (struct router){.server = server};
    router->on_ready = event_new(server->base, -1, 0, route_pump_turn, router);
    if (!router->on_ready)
        return -ENOMEM;
    server->queues->on_gone = on_gone;
    server->queues->on_moved = on_moved;
    server->queues->on_stirred = on_stirred;
    server->pools->on_freed = on_freed;
    return 0;
}

void router_deinit(struct server *server)
{
    if (server->router->on_ready)
        event_free(server->router->on_ready);
    server->router->on_ready = NULL;
    route_pump_free_spare(server->router);
}

static void note_holding(uint64_t *bits, uint32_t ref)
{
    bits[(ref >> 16) / 64] |= UINT64_C(1) << (ref >> 16) % 64;
}

void router_holdings(struct server *server, uint64_t *bits)
{
    struct route *route;

    DL_FOREACH (server->router->all, route)
        for (uint32_t i = 0; i < route->backlog.n; i++)
            note_holding(bits, backlog_at(&route->backlog, i)->ref);
}
