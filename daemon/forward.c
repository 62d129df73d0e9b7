#include "daemon/forward.h"

#include <limits.h>
#include <utlist.h>

#include "daemon/chain.h"
#include "daemon/queue.h"
#include "daemon/router.h"
#include "daemon/segment.h"
#include "daemon/server.h"
#include "daemon/sweep.h"
#include "proto/clock.h"
#include "proto/futex.h"

#define SLICE_MESSAGES 64 /* before others have their turn */
#define SLICE_NS       (50 * NSEC_PER_USEC)
#define TURN_MESSAGES  16 /* of one relay, before the next one that is ready has its turn */

/* --- who has something to do --- */

static void schedule(struct router *router)
{
    event_active(router->on_ready, EV_TIMEOUT, 0);
}

void relay_ready(struct relay *relay)
{
    struct router *router = &relay->server->router;

    if (relay->ready)
        return;
    if (!router->ready)
        schedule(router);
    relay->ready = true;
    DL_APPEND2(router->ready, relay, ready_prev, ready_next);
}

static void unready(struct relay *relay)
{
    if (!relay->ready)
        return;
    relay->ready = false;
    DL_DELETE2(relay->server->router.ready, relay, ready_prev, ready_next);
}

static void starve(struct relay *relay)
{
    if (relay->starved)
        return;
    relay->starved = true;
    DL_APPEND2(relay->server->router.starved, relay, starved_prev, starved_next);
}

static void unstarve(struct relay *relay)
{
    if (!relay->starved)
        return;
    relay->starved = false;
    DL_DELETE2(relay->server->router.starved, relay, starved_prev, starved_next);
}

void router_unstarve(struct router *router)
{
    struct relay *relay, *next;

    DL_FOREACH_SAFE2 (router->starved, relay, next, starved_next) {
        unstarve(relay);
        relay_ready(relay);
    }
}

/* --- who wakes whom --- */

static struct queue_view *view(struct relay *relay)
{
    return &relay->queue->ring.view;
}

/* From here on who puts, or takes, rings. The caller looks once more. */
static void arm(struct relay *relay, _Atomic uint64_t *waiting)
{
    relay->armed = true;
    atomic_fetch_or(waiting, QUEUE_ROUTER);
    atomic_thread_fence(memory_order_seq_cst);
}

static void disarm(struct relay *relay)
{
    if (!relay->armed)
        return;
    relay->armed = false;
    atomic_fetch_and(&view(relay)->put->waiting, ~(uint64_t)QUEUE_ROUTER);
    atomic_fetch_and(&view(relay)->take->waiting, ~(uint64_t)QUEUE_ROUTER);
}

/* One of those who sleep on the other side of the ring wakes up: it is one message, or one place, more. */
static void wake(struct relay *relay, _Atomic uint64_t *waiting, _Atomic uint32_t *word)
{
    uint32_t w = queue_waiting(waiting);

    if (w & ~QUEUE_ROUTER) {
        atomic_fetch_add(word, 1);
        futex_wake_one(word);
    }
    /* It was a destination whose backlog is still being delivered when it became a source. */
    if (w & QUEUE_ROUTER)
        relay_ready(relay);
}

/* --- putting --- */

/* False: there is no room. True also when the buffer is npud's no more: somebody plays. */
static bool put(struct route *route, uint32_t ref)
{
    struct relay *to = route->destination;
    struct mbuf *m;
    uint64_t word;

    if (!chain_held(to->server, ref))
        return true;
    m = &segment_find(to->server, ref >> 16)->view.mbufs[ref & 0xffff];
    word = atomic_load_explicit(&m->word, memory_order_relaxed);
    switch (queue_enqueue(view(to), m, ref, word, SHARE_NPUD)) {
    case QUEUE_OK:
        route->messages++;
        wake(to, &view(to)->take->waiting, &view(to)->put->wake);
        return true;
    case QUEUE_STALE:
        return true;
    default:
        return false;
    }
}

/* The next one of the backlog has been delivered; the next route into here has its turn. */
static void advance(struct relay *to, struct route *route)
{
    struct relay *from = route->source;
    bool was_full = backlog_full(&route->backlog);

    backlog_pop(&route->backlog);
    DL_DELETE2(to->waiting, route, waiting_prev, waiting_next);
    if (route->backlog.n > 0)
        DL_APPEND2(to->waiting, route, waiting_prev, waiting_next);
    if (from && was_full)
        relay_ready(from);
    route_settle(route);
}

/* Backlogs of routes into here, in turns. False: the budget is used up. */
static bool drain(struct relay *to, unsigned *budget)
{
    bool armed = false;

    for (; to->waiting && *budget > 0; --*budget) {
        struct route *route = to->waiting;

        if (put(route, backlog_first(&route->backlog))) {
            advance(to, route);
            continue;
        }
        if (armed)
            return true;
        arm(to, &view(to)->put->waiting);
        armed = true;
    }
    return to->waiting == NULL;
}

/* There is a place in the backlog for it. */
static void deliver(struct route *route, uint32_t ref, uint64_t bytes)
{
    struct relay *to = route->destination;

    /* Those who wait come first, of other sources too. */
    if (!to->waiting && put(route, ref)) {
        route_settle(route);
        return;
    }
    if (route->backlog.n == 0)
        DL_APPEND2(to->waiting, route, waiting_prev, waiting_next);
    backlog_push(&route->backlog, ref, bytes);
    if (!to->armed)
        relay_ready(to);
}

/* --- the pending message --- */

void route_not_due(struct route *route)
{
    if (!route->due)
        return;
    route->due = false;
    route->source->n_due--;
}

/* Who may take from the destination may map what the source may be fed with. */
static bool feed(struct route *route, const struct chain *chain)
{
    struct segment *last = NULL;

    for (uint32_t i = 0; i < chain->n; i++) {
        if (chain->member[i].segment == last)
            continue;
        last = chain->member[i].segment;
        if (!queue_feed(route->destination->queue, last))
            return false;
    }
    return true;
}

/* Is everything in it from segments that feed the source? Else somebody has made it up, to get at memory that he was not given. */
static bool genuine(struct relay *from, const struct chain *chain)
{
    for (uint32_t i = 0; i < chain->n; i++)
        if (!queue_fed(from->queue, chain->member[i].segment))
            return false;
    return true;
}

static void drop(struct relay *from)
{
    uint32_t ref = from->pending;

    from->pending = 0;
    mbuf_free_chain(from->server, ref);
}

static struct route *next_due(struct relay *from)
{
    struct route *route;

    DL_FOREACH2 (from->out, route, out_next)
        if (route->due)
            return route;
    return NULL;
}

static void spend(unsigned *budget, unsigned n)
{
    *budget -= n < *budget ? n : *budget;
}

/*
 * Give the pending message to all routes that are due it. False: there is no slot for a reference, and it stays pending. All that can fail comes before
 * a route counts as served. The first buffer of each has been counted.
 */
static bool distribute(struct relay *from, unsigned *budget)
{
    static struct chain chain; /* 5 KiB; one control thread */
    struct route *route;
    uint32_t ref;

    if (from->n_due == 0 || !chain_read(from->server, from->pending, &chain) ||
        !genuine(from, &chain)) {
        DL_FOREACH2 (from->out, route, out_next)
            route_not_due(route);
        drop(from);
        return true;
    }
    while (from->pending && (route = next_due(from))) {
        if (!feed(route, &chain) || !backlog_reserve(&route->backlog))
            return false;
        ref = from->n_due == 1 ? from->pending : chain_copy(&chain);
        if (ref == 0)
            return false;
        if (ref == from->pending)
            from->pending = 0;
        route_not_due(route);
        deliver(route, ref, chain.bytes);
        spend(budget, chain.n - 1);
    }
    return true;
}

/* --- taking --- */

/* Somewhere to go for the next message, and nobody who must be waited for? */
static bool may_take(struct relay *from)
{
    struct route *route;

    if (from->n_out == 0)
        return false;
    DL_FOREACH2 (from->out, route, out_next)
        if (route->state == ROUTE_BOUND && backlog_full(&route->backlog))
            return false;
    return true;
}

/* The buffer of a message, or NULL. */
static struct mbuf *buffer(struct server *server, uint32_t ref)
{
    struct segment *segment = segment_find(server, ref >> 16);

    return segment && (ref & 0xffff) < segment_slots(&segment->view)
               ? &segment->view.mbufs[ref & 0xffff]
               : NULL;
}

/* Take the next message, if it is one. QUEUE_EMPTY: there is none. */
static enum queue_result take(struct relay *from)
{
    struct segment_table *table = segments_table(from->server);
    struct queue_front front;
    struct route *route;
    uint64_t held;
    enum queue_result r = queue_front(view(from), &front);

    if (r != QUEUE_OK)
        return r;
    queue_settle(view(from), front.head, table);
    r = queue_dequeue(view(from), &front, buffer(from->server, front.ref), SHARE_NPUD, table,
                      &held);
    if (r == QUEUE_EMPTY)
        return QUEUE_NOTHING; /* somebody was faster, who should not take: look again */
    wake(from, &view(from)->put->waiting, &view(from)->take->wake);
    if (r != QUEUE_OK)
        return r;
    from->pending = front.ref;
    DL_FOREACH2 (from->out, route, out_next) {
        if (route->state != ROUTE_BOUND)
            continue;
        route->due = true;
        from->n_due++;
    }
    return QUEUE_OK;
}

/* Messages from here. False: the budget is used up. */
static bool pump(struct relay *from, unsigned *budget)
{
    bool armed = false;

    for (; *budget > 0; spend(budget, 1)) {
        if (from->pending && !distribute(from, budget)) {
            starve(from);
            return true;
        }
        if (!may_take(from))
            return true;
        switch (take(from)) {
        case QUEUE_OK:
            break;
        case QUEUE_NOTHING:
            armed = false;
            break;
        default:
            if (armed)
                return true;
            arm(from, &view(from)->take->waiting);
            armed = true;
        }
    }
    return false;
}

void relay_empty(struct relay *from)
{
    unsigned budget = UINT_MAX;

    for (uint32_t i = 0; i <= from->queue->ring.view.depth; i++) {
        enum queue_result r;

        if (from->pending && !distribute(from, &budget))
            return;
        if (!may_take(from))
            return;
        r = take(from);
        if (r != QUEUE_OK && r != QUEUE_NOTHING)
            return;
    }
}

/* --- turns --- */

/* Returns what was used of the budget, with one for looking. */
static unsigned run(struct relay *relay, unsigned budget)
{
    unsigned left = budget;
    bool out = true, in = true;

    disarm(relay);
    if (relay->out)
        out = pump(relay, &left);
    if (relay->waiting)
        in = drain(relay, &left);
    if (!out || !in)
        relay_ready(relay);
    return budget - left + 1;
}

void router_turn(int fd, short what, void *arg)
{
    struct router *router = arg;
    struct timeval now = {0};
    uint64_t until = clock_ns() + SLICE_NS;

    (void)fd;
    (void)what;
    for (unsigned n = 0; router->ready && n < SLICE_MESSAGES && clock_ns() < until;) {
        struct relay *relay = router->ready;

        unready(relay);
        n += run(relay, TURN_MESSAGES);
    }
    router_reap(router);
    /* A timer of zero fires after the loop has looked at all descriptors. */
    if (router->ready)
        event_add(router->on_ready, &now);
}

/* --- ends --- */

void route_drop_backlog(struct route *route)
{
    struct relay *to = route->destination;

    if (route->backlog.n == 0)
        return;
    DL_DELETE2(to->waiting, route, waiting_prev, waiting_next);
    while (route->backlog.n > 0) {
        uint32_t ref = backlog_first(&route->backlog);

        backlog_pop(&route->backlog);
        mbuf_free_chain(to->server, ref);
    }
}

void relay_forget(struct relay *relay)
{
    if (relay->pending)
        drop(relay);
    disarm(relay);
    unready(relay);
    unstarve(relay);
}
