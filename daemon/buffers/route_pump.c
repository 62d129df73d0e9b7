#include "daemon/buffers/route_pump.h"

#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/trace.h"
#include "proto/shm/mbuf_chain.h"

#define TURN_MESSAGES  16 /* of one relay, before others have their turn */
#define ROUTES_AT_ONCE 8  /* of a source, before a look at the clock */

/* --- putting --- */

enum put_result {
    PUT_DONE, /* or the message is none any more: a hostile peer has taken its buffers */
    PUT_FULL,
    PUT_NO_SLOT, /* for a reference */
};

static void spend_budget(unsigned *budget, unsigned n)
{
    *budget -= n < *budget ? n : *budget;
}

/*
 * How many references of npud's are in a ring with `fill` messages? The clients' messages are not
 * told from npud's: so all that npud has put count until the consumers have taken the last of them.
 */
static uint32_t copies_in_ring(struct relay *to, uint32_t fill)
{
    uint64_t head = queue_head_position(
        atomic_load_explicit(&relay_view(to)->take->head, memory_order_relaxed));

    if ((int64_t)(head - to->copies_end) >= 0)
        to->n_copies = 0;
    return to->n_copies < fill ? to->n_copies : fill;
}

/*
 * One more is in the ring, somewhere before tail. A hostile peer may write to tail: the value is
 * bounded, because copies_in_ring() would count for ever otherwise.
 */
static void note_copy(struct relay *to)
{
    const struct queue_view *v = relay_view(to);
    uint64_t head = queue_head_position(atomic_load_explicit(&v->take->head, memory_order_relaxed));
    uint64_t tail = atomic_load_explicit(&v->put->tail, memory_order_relaxed);

    to->n_copies++;
    to->copies_end = tail - head > v->depth ? head + v->depth : tail;
}

void route_pump_moved(struct relay *relay)
{
    /* The bits of the old ring are of no use: the turn that follows arms the new one. */
    relay->armed = relay->awaits_room = false;
    relay->copies_end = atomic_load_explicit(&relay_view(relay)->put->tail, memory_order_relaxed);
}

/*
 * Does the queue allow its consumers to map all segments of the chain? A client can make up a
 * message, to get at memory that it was not given, and change a chain after npud has taken it.
 */
static bool all_allowed(const struct relay *relay, const struct chain *chain)
{
    for (uint32_t i = 0; i < chain->n; i++)
        if (!queue_allows_map(relay->queue, chain->member[i].segment))
            return false;
    return true;
}

/*
 * References to the message for one destination, if it may have some now: *ref, with what they cost
 * taken off the budget. PUT_DONE with *ref 0: there is nothing to put.
 *
 * A ring without references of npud's gets one if there is a slot. Else more slots must be free
 * than this ring has: so idle destinations, however many there are, leave slots to the others.
 */
static enum put_result make_reference(struct route *route, const struct message *m, uint32_t *ref,
                                      unsigned *budget)
{
    static struct chain chain; /* 5 KiB; one control thread */
    struct relay *to = route->destination;
    uint32_t fill = queue_fill(relay_view(to)), copies = copies_in_ring(to, fill);
    enum chain_result r;

    *ref = 0;
    if (fill >= relay_view(to)->depth)
        return PUT_FULL;
    if (!chain_read(to->server, m->ref, &chain) || !all_allowed(to, &chain))
        return PUT_DONE;
    if (copies > 0 && !chain_has_room(&chain, copies + 1))
        return PUT_FULL;
    r = chain_copy(&chain, ref);
    if (r == CHAIN_OK) {
        spend_budget(budget, chain.n - 1);
        return PUT_DONE;
    }
    if (r == CHAIN_NO_SLOT)
        route->slot_segment = *ref >> 16;
    *ref = 0;
    return r == CHAIN_NO_SLOT ? PUT_NO_SLOT : PUT_DONE;
}

/*
 * What an npud that comes later must know, in an order in which it is right after each store: which
 * message the route is at, and with which buffer. Is that buffer in the ring, or a consumer's, then
 * the message is delivered.
 */
static void note_put(struct route *route, uint64_t sequence, uint32_t ref, uint64_t word)
{
    struct route_live *live = route->live;

    atomic_store_explicit(&live->put, 0, memory_order_relaxed);
    kept_order();
    atomic_store_explicit(&live->next, sequence, memory_order_relaxed);
    kept_order();
    atomic_store_explicit(&live->put,
                          ref | (uint64_t)mbuf_generation(word) << 32 | (sequence & 15) << 60,
                          memory_order_relaxed);
    kept_order();
    KILL_HERE(MESSAGE_PUTTING);
}

/* It is npud's as before. */
static void forget_put(struct route *route)
{
    kept_order();
    atomic_store_explicit(&route->live->put, 0, memory_order_relaxed);
    kept_order();
}

static void count_message(struct route *route)
{
    uint64_t n = atomic_load_explicit(&route->live->messages, memory_order_relaxed);

    atomic_store_explicit(&route->live->messages, n + 1, memory_order_relaxed);
}

/* PUT_DONE: the ring has the buffers of this chain, or they are npud's no more. */
static enum put_result put_chain(struct route *route, const struct message *of, uint32_t ref)
{
    struct relay *to = route->destination;
    struct trace *trace = to->server->trace;
    struct mbuf_ref m;
    uint64_t begun;

    if (!chain_find_held(to->server, ref, &m))
        return PUT_DONE;
    if (to->queue->rest)
        return PUT_FULL; /* what is in front of it is still coming */
    note_put(route, of->sequence, ref, m.word);
    begun = trace_carry(trace);
    switch (queue_enqueue(relay_view(to), m.mbuf, ref, m.word, PEER_NPUD)) {
    case QUEUE_OK:
        KILL_HERE(MESSAGE_PUT);
        queue_carried(to->queue);
        count_message(route);
        trace_carried(trace, TRACE_CARRY_PUT, begun, relay_view(to)->number, ref, of->ref);
        relay_wake(to, &relay_view(to)->take->waiting, &relay_view(to)->put->wake);
        return PUT_DONE;
    case QUEUE_STALE:
        return PUT_DONE;
    default:
        forget_put(route);
        return PUT_FULL;
    }
}

/* Deliver the message to the destination of this route. */
static enum put_result put_message(struct route *route, struct message *m, unsigned *budget)
{
    enum put_result r;
    uint32_t ref;

    if (m->n_routes == 1) {
        r = put_chain(route, m, m->ref);
        if (r == PUT_DONE && m->ref != 0)
            message_delivered(route->router, m);
        return r;
    }
    r = make_reference(route, m, &ref, budget);
    if (ref == 0)
        return r;
    KILL_HERE(MESSAGE_COPIED);
    r = put_chain(route, m, ref);
    if (r == PUT_FULL)
        chain_free(route->router->server, ref);
    else
        note_copy(route->destination);
    return r;
}

/* The first one of the backlog has been delivered; the next route into here has its turn. */
static void advance_backlog(struct route *route)
{
    struct relay *from = route->source;
    struct message *m = backlog_first(&route->backlog);
    bool was_full = backlog_full(&route->backlog);

    route_stop_waiting(route);
    backlog_pop(&route->backlog);
    route_passed(route, m->sequence);
    message_done(route->router, m);
    if (route->backlog.n == 0)
        relay_unstarve_all(route->router); /* the backlog has given its memory back */
    if (route->backlog.n > 0)
        DL_APPEND2(route->destination->waiting, route, waiting_prev, waiting_next);
    if (from && was_full)
        relay_make_ready(from);
    route_check_over(route);
}

/* Backlogs of routes into here, in turns. False: the budget is used up. */
static bool drain_backlogs(struct relay *to, unsigned *budget)
{
    bool armed = false;

    for (; to->waiting && *budget > 0; spend_budget(budget, 1)) {
        struct route *route = to->waiting;

        switch (put_message(route, backlog_first(&route->backlog), budget)) {
        case PUT_DONE:
            advance_backlog(route);
            break;
        case PUT_NO_SLOT:
            route_stop_waiting(route);
            route_wait_for_slot(route);
            break;
        default:
            to->awaits_room = armed;
            if (armed)
                return true;
            relay_arm(to, &relay_view(to)->put->waiting);
            armed = true;
        }
    }
    return to->waiting == NULL;
}

/* At once, or by the backlog, which has a place: messages that wait come first, of any source. */
static void deliver_message(struct route *route, struct message *m, unsigned *budget)
{
    enum put_result r = PUT_FULL;

    if (route->backlog.n == 0 && !route->destination->waiting)
        r = put_message(route, m, budget);
    if (r == PUT_DONE) {
        route_passed(route, m->sequence);
        message_done(route->router, m);
        route_check_over(route);
        return;
    }
    backlog_push(&route->backlog, m);
    message_keep(route->router, m);
    if (route->backlog.n > 1)
        return;
    if (r == PUT_NO_SLOT)
        route_wait_for_slot(route);
    else
        route_wait_for_turn(route);
}

/* --- distributing --- */

/* A step goes from route to route of a source, until its time is over. */
struct walk {
    const struct schedule *schedule; /* NULL: without a limit */
    unsigned work;                   /* since the last look at the clock */
};

static bool walk_is_over(struct walk *walk, unsigned work)
{
    walk->work += work;
    if (!walk->schedule || walk->work < ROUTES_AT_ONCE)
        return false;
    walk->work = 0;
    return schedule_step_over(walk->schedule);
}

/* The consumers of the destination may map the segments of the message. */
static void allow_map(struct route *route, const struct chain *chain)
{
    struct segment *last = NULL;

    for (uint32_t i = 0; i < chain->n; i++) {
        if (chain->member[i].segment != last)
            queue_allow_map(route->destination->queue, chain->member[i].segment);
        last = chain->member[i].segment;
    }
}

/*
 * Give the message of the source to the routes that are still to get it. False: the step is over.
 * All of them have room for it, so nothing stops it in between.
 */
static bool give_message(struct relay *from, struct walk *walk, unsigned *budget)
{
    static struct chain chain; /* 5 KiB; one control thread */
    /* A client can change it between two steps. */
    bool whole = chain_read(from->server, from->message->ref, &chain) && all_allowed(from, &chain);

    while (from->message) {
        struct route *route = from->at;
        struct message *m = from->message;

        assert(route);
        from->at = route->out_next;
        if (route->backlog.reserved) {
            if (whole)
                allow_map(route, &chain);
            route_unreserve(route);
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): only the last of n_routes frees it */
            deliver_message(route, m, budget);
        }
        if (walk_is_over(walk, whole ? chain.n : 1) && from->message)
            return false;
    }
    return true;
}

/* Give a message to all routes that are bound. may_take() has made the memory for it. */
static void distribute_message(struct relay *from, uint32_t ref, struct walk *walk,
                               unsigned *budget)
{
    static struct chain chain; /* 5 KiB; one control thread */

    if (!chain_read(from->server, ref, &chain) || !all_allowed(from, &chain)) {
        chain_free(from->server, ref);
        return;
    }
    from->message = message_new(from, ref, &chain);
    from->message->n_routes = from->n_reserved;
    from->at = from->out;
    give_message(from, walk, budget);
}

/* --- taking --- */

enum may_take {
    MAY_TAKE,
    MAY_NOT_TAKE,
    MAY_LATER, /* the step is over: once more, in the next turn */
};

/* Memory for one message more. False: none. */
static bool make_place(struct route *route)
{
    return backlog_reserve(&route->backlog, route->user) &&
           queue_allow_map_prepare(route->destination->queue);
}

static enum may_take starve_source(struct relay *from)
{
    relay_starve(from);
    return MAY_NOT_TAKE;
}

/*
 * Have all routes the last message, is there a route, does none have a full backlog, and is there
 * memory for the next message? Where a route has a full backlog, or there is no memory, it goes on
 * the next time: those before it stay ready, because a message comes to them only from here.
 */
static enum may_take may_take(struct relay *from, struct walk *walk, unsigned *budget)
{
    if (from->message && !give_message(from, walk, budget))
        return MAY_LATER;
    if (from->n_out == 0)
        return MAY_NOT_TAKE;
    while (from->at) {
        struct route *route = from->at;
        bool ready = route->state != ROUTE_BOUND || route->backlog.reserved;

        if (!ready && backlog_full(&route->backlog))
            return MAY_NOT_TAKE;
        if (!ready && !make_place(route))
            return starve_source(from);
        if (!ready)
            route_reserve(route);
        from->at = route->out_next;
        if (walk_is_over(walk, 1) && from->at)
            return MAY_LATER;
    }
    return message_prepare(from->server->router) ? MAY_TAKE : starve_source(from);
}

/*
 * As note_put(): the message that is about to be taken. What was taken before has been delivered,
 * or is certain to be in backlogs.
 */
static void note_taking(struct relay *from, const struct mbuf_ref *m)
{
    struct router *router = from->server->router;
    struct relay_live *live = from->live;
    uint64_t sequence = atomic_load_explicit(&live->sequence, memory_order_relaxed) + 1;

    if (router->unkept)
        kept_commit();
    router->unkept = false;
    atomic_store_explicit(&live->taken, 0, memory_order_relaxed);
    kept_order();
    atomic_store_explicit(&live->sequence, sequence, memory_order_relaxed);
    kept_order();
    atomic_store_explicit(&live->taken, m->ref | (uint64_t)mbuf_generation(m->word) << 32,
                          memory_order_relaxed);
    kept_order();
    KILL_HERE(MESSAGE_TAKING);
}

/*
 * Take the next message, if it is one, for all routes that are bound. QUEUE_EMPTY: there is none.
 */
static enum queue_result take_message(struct relay *from, struct walk *walk, unsigned *budget)
{
    struct segment_table *table = segments_table(from->server);
    struct queue_front front;
    struct mbuf_ref m = {.mbuf = NULL};
    uint64_t held, begun;
    enum queue_result r = queue_front(relay_view(from), &front);

    if (r != QUEUE_OK)
        return r;
    queue_commit(relay_view(from), front.head, table);
    if (mbuf_chain_find(table, front.ref, &m))
        note_taking(from, &m);
    begun = trace_carry(from->server->trace);
    r = queue_dequeue(relay_view(from), &front, m.mbuf, PEER_NPUD, table, &held);
    if (r == QUEUE_EMPTY)
        return QUEUE_NOTHING; /* a hostile peer was faster: look again */
    relay_wake(from, &relay_view(from)->put->waiting, &relay_view(from)->take->wake);
    KILL_HERE(MESSAGE_TAKEN);
    if (r != QUEUE_OK)
        return r;
    trace_carried(from->server->trace, TRACE_CARRY_TAKE, begun, relay_view(from)->number, front.ref,
                  0);
    distribute_message(from, front.ref, walk, budget);
    return r;
}

/* Messages from here. False: the budget, or the step, is used up. */
static bool pump_source(struct relay *from, unsigned *budget)
{
    struct walk walk = {.schedule = &from->server->schedule};
    bool armed = false;

    for (; *budget > 0; spend_budget(budget, 1)) {
        enum may_take may = may_take(from, &walk, budget);

        if (may != MAY_TAKE)
            return may == MAY_NOT_TAKE;
        switch (take_message(from, &walk, budget)) {
        case QUEUE_OK:
            break;
        case QUEUE_NOTHING:
            armed = false;
            break;
        default:
            if (armed)
                return true;
            relay_arm(from, &relay_view(from)->take->waiting);
            armed = true;
        }
    }
    return false;
}

bool route_pump_ending(struct relay *from)
{
    struct walk walk = {.schedule = &from->server->schedule};
    enum queue_result r = QUEUE_OK;
    unsigned budget = TURN_MESSAGES;

    while (budget > 0) {
        enum may_take may = may_take(from, &walk, &budget);

        if (may == MAY_LATER)
            return false;
        if (from->taken_at_end > from->queue->ring.view.depth || may == MAY_NOT_TAKE ||
            (r != QUEUE_OK && r != QUEUE_NOTHING))
            return true;
        from->taken_at_end++;
        r = take_message(from, &walk, &budget);
        spend_budget(&budget, 1);
    }
    return false;
}

void route_pump_empty(struct relay *from)
{
    struct walk walk = {.schedule = NULL};
    unsigned budget = UINT_MAX;

    for (uint32_t i = 0; i <= from->queue->ring.view.depth; i++) {
        enum queue_result r;

        if (may_take(from, &walk, &budget) != MAY_TAKE)
            return;
        r = take_message(from, &walk, &budget);
        if (r != QUEUE_OK && r != QUEUE_NOTHING)
            return;
    }
}

/* --- turns --- */

static void run_relay(struct relay *relay, unsigned budget)
{
    bool out = true, in = true;

    relay_disarm(relay);
    if (relay->out && !relay->parting)
        out = pump_source(relay, &budget);
    if (relay->waiting)
        in = drain_backlogs(relay, &budget);
    if (!out || !in)
        relay_make_ready(relay);
}

bool route_pump_turn(struct job *job)
{
    struct relay *relay = (struct relay *)((char *)job - offsetof(struct relay, turn));
    struct router *router = relay->server->router;

    relay_answer_bell(relay);
    run_relay(relay, TURN_MESSAGES);
    route_reap(router); /* the relay may go with its last route */
    return false;
}
