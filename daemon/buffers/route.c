#include "daemon/buffers/route.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route_index.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"

/* --- waiting --- */

/* In its relays: one more, or one less. */
static void count_wait_in(struct route *route, uint32_t more)
{
    if (route->source)
        route->source->n_wait_in += more;
    route->destination->n_wait_in += more;
}

void route_wait_for_slot(struct route *route)
{
    route->waits_in = segment_find(route->router->server, route->slot_segment);
    if (!route->waits_in) {
        route_wait_for_turn(route);
        return;
    }
    DL_APPEND2(route->waits_in->slot_waiters, route, waiting_prev, waiting_next);
    count_wait_in(route, 1);
}

void route_wait_for_turn(struct route *route)
{
    struct relay *to = route->destination;

    DL_APPEND2(to->waiting, route, waiting_prev, waiting_next);
    /* Not `armed`: one that has become a source waits for messages, and its ring has room. */
    if (!to->awaits_room)
        relay_make_ready(to);
}

void route_stop_waiting(struct route *route)
{
    if (!route->waits_in) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): of the last, next is unused */
        DL_DELETE2(route->destination->waiting, route, waiting_prev, waiting_next);
        return;
    }
    DL_DELETE2(route->waits_in->slot_waiters, route, waiting_prev, waiting_next);
    count_wait_in(route, UINT32_MAX);
    route->waits_in = NULL;
}

void route_try_again(struct route *route)
{
    route_stop_waiting(route);
    route_wait_for_turn(route);
}

void route_slot_freed(struct segment *segment)
{
    while (segment->slot_waiters)
        route_try_again(segment->slot_waiters);
}

/* --- messages --- */

/* With its record: without one, a message that is in a backlog would be lost with npud. */
bool message_prepare(struct router *router)
{
    if (!router->spare)
        router->spare = calloc(1, sizeof(*router->spare));
    return router->spare && (router->spare->kept.cell || message_record_keep(router->spare));
}

struct message *message_new(struct relay *from, uint32_t ref, const struct chain *chain)
{
    struct router *router = from->server->router;
    struct message *m = router->spare;
    uint64_t kib = (chain->bytes + 1023) >> 10;
    const struct mbuf *head = chain->member[0].mbuf;

    router->spare = NULL;
    m->ref = ref;
    m->kib = kib > UINT32_MAX ? UINT32_MAX : (uint32_t)kib;
    m->generation = mbuf_generation(atomic_load_explicit(&head->word, memory_order_relaxed));
    m->source = from->queue->serial;
    m->sequence = atomic_load_explicit(&from->live->sequence, memory_order_relaxed);
    router->held[ref >> 16]++;
    return m;
}

void message_keep(struct router *router, struct message *m)
{
    assert(m->kept.cell);
    if (!m->waits)
        kept_touch(&m->kept);
    m->waits = true;
    router->unkept = true;
    KILL_HERE(MESSAGE_KEPT);
}

void message_delivered(struct router *router, struct message *m)
{
    assert(m->ref != 0 && router->held[m->ref >> 16] > 0);
    router->held[m->ref >> 16]--;
    m->ref = 0;
}

static void free_message(struct message *m)
{
    kept_drop(&m->kept);
    free(m);
}

/* With the record, which says nothing from the end of this step on. */
static void make_spare(struct router *router, struct message *m)
{
    if (m->waits)
        kept_touch(&m->kept);
    m->waits = false;
    router->spare = m;
}

void message_done(struct router *router, struct message *m)
{
    assert(m->n_routes > 0);
    if (--m->n_routes > 0)
        return;
    if (m->ref != 0) {
        chain_free(router->server, m->ref);
        message_delivered(router, m);
    }
    if (router->spare)
        free_message(m);
    else
        make_spare(router, m);
}

void message_free_spare(struct router *router)
{
    if (router->spare)
        free_message(router->spare);
    router->spare = NULL;
}

/* --- the message that its source gives to its routes --- */

void route_reserve(struct route *route)
{
    assert(!route->backlog.reserved && !route->source->message);
    route->backlog.reserved = true;
    route->source->n_reserved++;
}

void route_unreserve(struct route *route)
{
    struct relay *from = route->source;

    assert(route->backlog.reserved && from->n_reserved > 0);
    route->backlog.reserved = false;
    if (--from->n_reserved > 0 || !from->message)
        return;
    /* All have it. Room for the next one is made from the first route on. */
    from->message = NULL;
    from->at = from->out;
}

void route_forgo(struct route *route)
{
    struct message *m;

    if (!route->backlog.reserved)
        return;
    m = route->source->message;
    route_unreserve(route);
    if (m)
        message_done(route->router, m);
}

/*
 * The source makes room for its next message, and comes to this route. If it gives a message, then
 * that was taken before the route was bound, and it begins anew afterwards.
 */
static void visit_bound(struct route *route)
{
    struct relay *from = route->source;

    if (from->message)
        return;
    if (route->out_next)
        from->at = from->out;
    else if (!from->at)
        from->at = route;
}

/* --- which messages of the source are for it --- */

static uint64_t next_sequence(const struct route *route)
{
    return atomic_load_explicit(&route->source->live->sequence, memory_order_relaxed) + 1;
}

/* Are there messages that it had before it was unbound? */
static bool has_messages(const struct route *route)
{
    return route->backlog.n > 0 || (route->backlog.reserved && route->source->message);
}

static void set_next(struct route *route, uint64_t sequence)
{
    atomic_store_explicit(&route->live->put, 0, memory_order_relaxed);
    kept_order();
    atomic_store_explicit(&route->live->next, sequence, memory_order_relaxed);
    kept_order();
    KILL_HERE(ROUTE_FROM);
}

/* All that its source takes from here on, or nothing of it. */
static void note_bound(struct route *route)
{
    if (route->state != ROUTE_BOUND) {
        route->end = next_sequence(route);
        return;
    }
    route->end = 0;
    if (!has_messages(route))
        set_next(route, next_sequence(route));
}

#define GAP_MEMBERS(DO)                                                                            \
    DO##DERIVED(route, o->route->number);                                                          \
    DO##SAME(from, from);                                                                          \
    DO##SAME(to, to);

RECORD(static, gap, ROUTE_GAP, struct route_gap, kept, struct route_gap_record, GAP_MEMBERS)

bool route_add_gap(struct route *route, const struct route_gap_record *r, struct kept_cell *cell)
{
    struct route_gap *gap = route ? calloc(1, sizeof(*gap)) : NULL;

    if (!gap)
        return false;
    *gap = (struct route_gap){.route = route, .from = r->from, .to = r->to};
    if (!(cell ? gap_back(route->router->server, gap, cell, r) : gap_keep(gap))) {
        free(gap);
        return false;
    }
    LL_APPEND(route->gaps, gap);
    return true;
}

bool route_prepare_gap(struct route *route)
{
    struct route_gap_record r = {.from = route->end, .to = next_sequence(route)};

    return !has_messages(route) || r.from == r.to || route_add_gap(route, &r, NULL);
}

static void drop_gap(struct route *route)
{
    struct route_gap *gap = route->gaps;

    LL_DELETE(route->gaps, gap);
    kept_drop(&gap->kept);
    free(gap);
}

void route_passed(struct route *route, uint64_t sequence)
{
    kept_order();
    atomic_store_explicit(&route->live->next, sequence + 1, memory_order_relaxed);
    kept_order();
    KILL_HERE(MESSAGE_PASSED);
    while (route->gaps && sequence >= route->gaps->to)
        drop_gap(route);
}

/* --- life --- */

void route_set_state(struct route *route, enum route_state state)
{
    uint32_t was = route->state == ROUTE_BOUND, is = state == ROUTE_BOUND;

    if ((route->state == ROUTE_ABNORMAL) != (state == ROUTE_ABNORMAL))
        route_index_set_abnormal(route->router, route, state == ROUTE_ABNORMAL);
    route->state = state;
    kept_touch(&route->kept);
    if (was == is)
        return;
    assert(route->source && route->destination);
    route->source->n_out += is - was;
    route->destination->n_in += is - was;
    note_bound(route);
    if (is)
        visit_bound(route);
    else if (!route->source->message)
        route_forgo(route);
}

/* Takes over the reference to the user. */
struct route *route_make(struct router *router, struct user *user, const struct route_name *name,
                         uint64_t number)
{
    struct route *route = calloc(1, sizeof(*route));

    if (!route)
        return NULL;
    route->router = router;
    route->number = number;
    route->name = *name;
    if (!route_index_add(router, route)) {
        free(route);
        return NULL;
    }
    route->user = user;
    DL_APPEND(router->all, route);
    return route;
}

void route_join(struct route *route, struct relay *source, struct relay *destination)
{
    route->source = source;
    route->destination = destination;
    if (source)
        DL_APPEND2(source->out, route, out_prev, out_next);
    if (destination)
        DL_APPEND2(destination->in, route, in_prev, in_next);
}

static void route_free(struct router *router, struct route *route);

enum cause route_new(struct session *session, struct relay *source, struct relay *destination,
                     const struct route_name *name, struct route **routep)
{
    struct server *server = session->server;
    struct charge charge = {0};
    struct route *route;

    if (user_charge(&charge, session->user, RESOURCE_ROUTES, 1) < 0)
        return CAUSE_USER_ROUTES;
    route = route_make(server->router, session->user, name, server->last->route + 1);
    if (!route) {
        user_uncharge(&charge);
        return CAUSE_MEMORY;
    }
    server->last->route++;
    user_hold(route->user);
    route->charge = charge;
    route->from = source->queue->serial;
    if (!route_keep(route)) {
        route_free(server->router, route);
        return CAUSE_MEMORY;
    }
    route_join(route, source, destination);
    *routep = route;
    return CAUSE_NONE;
}

void route_leave_binder(struct route *route)
{
    if (route->binder) {
        DL_DELETE2(route->binder->routes, route, bound_prev, bound_next);
        kept_touch(&route->kept);
    }
    route->binder = NULL;
}

void route_leave_source(struct route *route)
{
    struct relay *source = route->source;

    route_forgo(route);
    if (source->at == route)
        source->at = route->out_next;
    if (route->waits_in)
        source->n_wait_in--;
    DL_DELETE2(source->out, route, out_prev, out_next);
    route->source = NULL;
    kept_touch(&route->kept);
}

void route_leave_destination(struct route *route)
{
    assert(route->backlog.n == 0 && !route->backlog.reserved);
    DL_DELETE2(route->destination->in, route, in_prev, in_next);
    route->destination = NULL;
    kept_touch(&route->kept);
}

static bool is_over(const struct route *route)
{
    if (route->state == ROUTE_UNBOUND)
        return route->backlog.n == 0 && !route->backlog.reserved;
    return route->state == ROUTE_ABNORMAL && !route->binder && !route->source &&
           !route->destination;
}

void route_check_over(struct route *route)
{
    if (route->state != ROUTE_BOUND && route->destination)
        relay_check_puts(route->destination);
    if (route->over || !is_over(route))
        return;
    route->over = true;
    LL_PREPEND2(route->router->over, route, over_next);
}

static void route_free(struct router *router, struct route *route)
{
    struct relay *source = route->source, *destination = route->destination;

    route_leave_binder(route);
    if (source)
        route_leave_source(route);
    if (destination)
        route_leave_destination(route);
    relay_check_used(source);
    relay_check_used(destination);
    backlog_deinit(&route->backlog);
    route_index_remove(router, route);
    DL_DELETE(router->all, route);
    while (route->gaps)
        drop_gap(route);
    kept_drop(&route->kept);
    user_uncharge(&route->charge);
    user_unref(route->user);
    free(route);
}

void route_reap(struct router *router)
{
    struct route *route;

    while ((route = router->over)) {
        LL_DELETE2(router->over, route, over_next);
        route->over = false;
        if (is_over(route))
            route_free(router, route);
    }
}
