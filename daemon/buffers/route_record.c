/*
 * What is kept of routes and of the messages that npud carries, and how they come back: a part of
 * route.h and router.h.
 *
 * Messages of a source have numbers. A route is to deliver those from route->live->next on, but for
 * gaps, and none from route->end on. So a backlog needs no record: it is the messages of the source
 * that there still are. A message that all of its routes deliver at once has none either: the
 * source has it in hand (relay->live->taken), and each route says which buffer it puts for which
 * message (route->live->put).
 */
#include "daemon/buffers/route.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/array.h"
#include "daemon/base/kill_here.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route_index.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/sweep.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"
#include "daemon/kept/restored.h"
#include "proto/shm/mbuf_chain.h"

static struct restored restored;

static struct {
    struct message **message;
    size_t n, size;
} found;

/* --- routes --- */

#define ROUTE_MEMBERS(DO)                                                                          \
    DO##SAME(number, number);                                                                      \
    DO##SAME(source, from);                                                                        \
    DO##DERIVED(destination, o->destination ? o->destination->queue->serial : 0);                  \
    DO##SAME(end, end);                                                                            \
    DO##DERIVED(uid, o->name.uid);                                                                 \
    DO##DERIVED(source_id, o->name.source);                                                        \
    DO##DERIVED(destination_id, o->name.destination);                                              \
    DO##DERIVED(binder, o->binder ? o->binder->number : PEER_NPUD);                                \
    DO##DERIVED(state, (uint8_t)o->state);                                                         \
    DO##DERIVED(has_source, o->source != NULL);                                                    \
    DO##DERIVED(has_destination, o->destination != NULL);

RECORD_LIVE(, route, ROUTE, struct route, kept, struct route_record, ROUTE_MEMBERS, live)

/* What it says counts once the message is in a backlog. */
#define MESSAGE_MEMBERS(DO)                                                                        \
    DO##DERIVED(source, o->waits ? o->source : 0);                                                 \
    DO##SAME(sequence, sequence);                                                                  \
    DO##SAME(ref, ref);                                                                            \
    DO##DERIVED(generation, o->generation);

RECORD(, message_record, MESSAGE, struct message, kept, struct message_record, MESSAGE_MEMBERS)

/* False: it is not there, and should be. */
static bool find_relay(bool has, uint64_t serial, struct relay **relay)
{
    struct queue *queue = has ? queue_restored(serial) : NULL;

    *relay = queue ? queue->route : NULL;
    return !has || *relay;
}

static bool join_again(struct route *route, const struct route_record *r)
{
    struct relay *source, *destination;

    if (!find_relay(r->has_source, r->source, &source) ||
        !find_relay(r->has_destination, r->destination, &destination))
        return false;
    route_join(route, source, destination);
    route->state = (enum route_state)r->state;
    if (route->state == ROUTE_ABNORMAL)
        route_index_set_abnormal(route->router, route, true);
    if (route->state != ROUTE_BOUND)
        return true;
    if (!source || !destination)
        return false;
    source->n_out++;
    destination->n_in++;
    return true;
}

bool route_restore(struct server *server, struct kept_cell *cell)
{
    struct route_record r;
    struct route_name name;
    struct route *route;
    struct user *user;

    kept_read(cell, &r, sizeof(r));
    name =
        (struct route_name){.uid = r.uid, .source = r.source_id, .destination = r.destination_id};
    user = user_ref(&server->users, r.uid);
    route = user && r.state <= ROUTE_ABNORMAL ? route_make(server->router, user, &name, r.number)
                                              : NULL;
    if (!route || !restored_add(&restored, r.number, route) || !route_back(server, route, cell, &r))
        return false;
    user_charge_again(&route->charge, user, RESOURCE_ROUTES, 1, false);
    if (r.binder != PEER_NPUD) {
        route->binder = peer_restored(server, r.binder);
        if (!route->binder)
            return false;
        DL_APPEND2(route->binder->routes, route, bound_prev, bound_next);
    }
    return join_again(route, &r);
}

bool route_gap_restore(struct server *server, struct kept_cell *cell)
{
    struct route_gap_record r;

    (void)server;
    kept_read(cell, &r, sizeof(r));
    return route_add_gap(restored_find(&restored, r.route), &r, cell);
}

/* --- messages --- */

/* NULL: no memory. */
static struct message *make_message(void)
{
    struct message **grown =
        array_grow(found.message, &found.size, found.n + 1, sizeof(struct message *));
    struct message *m = grown ? calloc(1, sizeof(*m)) : NULL;

    if (grown)
        found.message = grown;
    if (m)
        found.message[found.n++] = m;
    return m;
}

bool message_restore(struct server *server, struct kept_cell *cell)
{
    struct message_record r;
    struct message *m;

    kept_read(cell, &r, sizeof(r));
    /* It was in no backlog: made for the next message, or of one that its source had in hand. */
    if (r.source == 0) {
        kept_discard(cell);
        return true;
    }
    m = make_message();
    if (!m)
        return false;
    m->source = r.source;
    m->generation = r.generation & MBUF_GENERATION;
    m->waits = true;
    return message_record_back(server, m, cell, &r);
}

static int compare_messages(const struct message *a, const struct message *b)
{
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static int compare_items(const void *a, const void *b)
{
    return compare_messages(*(struct message *const *)a, *(struct message *const *)b);
}

static int compare_with_key(const void *item, const void *key)
{
    return compare_messages(*(struct message *const *)item, key);
}

/* The first one of this source that is not before this number. */
static size_t find_message(uint64_t source, uint64_t sequence)
{
    struct message key = {.source = source, .sequence = sequence};

    return array_lower_bound(found.message, found.n, sizeof(struct message *), &key,
                             compare_with_key);
}

static void sort_messages(void)
{
    if (found.n > 0)
        qsort(found.message, found.n, sizeof(struct message *), compare_items);
}

/* Does npud hold the head, as it was when it was taken? */
static bool is_held(struct server *server, uint32_t ref, uint32_t generation)
{
    struct mbuf_ref head;

    return ref != 0 && chain_find_held(server, ref, &head) &&
           mbuf_generation(head.word) == generation;
}

/* --- what the npud before was at --- */

#define NOTE_REF(note)        ((uint32_t)(note))
#define NOTE_GENERATION(note) ((uint32_t)((note) >> 32) & MBUF_GENERATION)

/*
 * The buffer was HELD by npud, under this generation, and was to be put. If it is on its way and in
 * no ring, it becomes that again. Clients go on meanwhile.
 */
static bool was_put(struct server *server, uint32_t ref, uint32_t generation)
{
    struct queue *queue;
    struct mbuf_ref m;

    if (!mbuf_chain_find(segments_table(server), ref, &m) || mbuf_generation(m.word) != generation)
        return true;
    if (mbuf_state(m.word) == MBUF_HELD)
        return mbuf_session(m.word) != PEER_NPUD;
    if (mbuf_state(m.word) != MBUF_SENDING || mbuf_session(m.word) != PEER_NPUD)
        return true;
    queue = queue_by_number(server, mbuf_queue(m.word));
    if (queue_moves_from(server->queues, mbuf_queue(m.word)) ||
        (queue && queue_sweep_has(queue, ref, PEER_NPUD)))
        return true;
    return !atomic_compare_exchange_strong(&m.mbuf->word, &m.word,
                                           mbuf_word_held(generation, PEER_NPUD));
}

static void finish_put(struct route *route)
{
    uint64_t next = atomic_load_explicit(&route->live->next, memory_order_relaxed);
    uint64_t put = atomic_load_explicit(&route->live->put, memory_order_relaxed);

    if (put != 0 && put >> 60 == (next & 15) &&
        was_put(route->router->server, NOTE_REF(put), NOTE_GENERATION(put)))
        route_passed(route, next);
    KILL_HERE(PUT_FINISHED);
    atomic_store_explicit(&route->live->put, 0, memory_order_relaxed);
    kept_order();
    KILL_HERE(PUT_FORGOTTEN);
}

/*
 * The message that the source has in hand, from->message for now, becomes one like those in
 * backlogs.
 */
static bool finish_take(struct relay *from)
{
    struct server *server = from->server;
    uint64_t taken = atomic_load_explicit(&from->live->taken, memory_order_relaxed);
    uint64_t sequence = atomic_load_explicit(&from->live->sequence, memory_order_relaxed);
    uint64_t serial = from->queue->serial;
    uint32_t generation = (NOTE_GENERATION(taken) + 1) & MBUF_GENERATION;
    size_t at = find_message(serial, sequence);
    struct message *m;

    if (at < found.n && found.message[at]->source == serial &&
        found.message[at]->sequence == sequence) {
        from->message = found.message[at];
        return true;
    }
    if (!is_held(server, NOTE_REF(taken), generation))
        return true;
    m = make_message();
    if (!m)
        return false;
    *m = (struct message){
        .ref = NOTE_REF(taken), .generation = generation, .source = serial, .sequence = sequence};
    from->message = m;
    sort_messages();
    if (!message_record_keep(m))
        return false;
    message_keep(server->router, m);
    KILL_HERE(TAKE_FINISHED);
    return true;
}

static void commit_take(struct relay *from)
{
    const struct queue_view *v = relay_view(from);

    queue_commit(v, atomic_load(&v->take->head), segments_table(from->server));
}

/* --- backlogs --- */

static bool is_in_gap(const struct route *route, uint64_t sequence)
{
    const struct route_gap *gap;

    LL_FOREACH (route->gaps, gap)
        if (sequence >= gap->from && sequence < gap->to)
            return true;
    return false;
}

/*
 * Where the source was giving a message to its routes, the destination may not allow its segments
 * yet. As give_message() does it: only what the source allows.
 */
static bool allow_segments(struct route *route, const struct message *m)
{
    static struct chain chain; /* 5 KiB; one control thread */
    bool ok = queue_allow_map_prepare(route->destination->queue);

    if (!chain_read(route->router->server, m->ref, &chain))
        return ok;
    for (uint32_t i = 0; i < chain.n; i++)
        if (!queue_allows_map(route->source->queue, chain.member[i].segment))
            return ok;
    for (uint32_t i = 0; ok && i < chain.n; i++)
        ok = queue_allow_map(route->destination->queue, chain.member[i].segment);
    return ok;
}

static bool fill_backlog(struct route *route)
{
    uint64_t next = atomic_load_explicit(&route->live->next, memory_order_relaxed);

    if (!route->destination)
        return true;
    for (size_t i = find_message(route->from, next); i < found.n; i++) {
        struct message *m = found.message[i];

        if (m->source != route->from || (route->end != 0 && m->sequence >= route->end))
            break;
        if (is_in_gap(route, m->sequence))
            continue;
        if (!backlog_reserve_again(&route->backlog, route->user))
            return false;
        if (route->source && route->source->message == m && !allow_segments(route, m))
            return false;
        backlog_push(&route->backlog, m);
        m->n_routes++;
    }
    return true;
}

/* Its size, and whether its buffers are there: a client may have taken them from npud. */
static void look_at_message(struct server *server, struct message *m)
{
    static struct chain chain; /* 5 KiB; one control thread */

    if (!is_held(server, m->ref, m->generation) || !chain_read(server, m->ref, &chain)) {
        m->ref = 0;
        return;
    }
    m->kib = (uint32_t)((chain.bytes + 1023) >> 10);
    server->router->held[m->ref >> 16]++;
}

/* No route is to deliver it: what npud has of it is freed by the sweep that follows. */
static void forget_undue(struct server *server)
{
    size_t n = 0;

    for (size_t i = 0; i < found.n; i++) {
        struct message *m = found.message[i];

        if (m->n_routes > 0) {
            found.message[n++] = m;
            continue;
        }
        if (m->ref != 0)
            message_delivered(server->router, m);
        kept_drop(&m->kept);
        free(m);
    }
    found.n = n;
}

/* --- the sweep of what npud itself has left --- */

static uint32_t *heads;
static size_t n_heads;

static int compare_refs(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static bool is_of_message(uint32_t ref)
{
    return n_heads > 0 && bsearch(&ref, heads, n_heads, sizeof(ref), compare_refs);
}

static bool sweep(struct server *server)
{
    heads = calloc(found.n + 1, sizeof(*heads));
    if (!heads)
        return false;
    n_heads = 0;
    for (size_t i = 0; i < found.n; i++)
        if (found.message[i]->ref != 0)
            heads[n_heads++] = found.message[i]->ref;
    qsort(heads, n_heads, sizeof(*heads), compare_refs);
    sweep_npud(server, is_of_message);
    free(heads);
    heads = NULL;
    n_heads = 0;
    return true;
}

/* --- all of it --- */

static bool restore_messages(struct server *server)
{
    struct queue *queue;
    struct route *route;

    DL_FOREACH (server->queues->all, queue)
        if (queue->route)
            commit_take(queue->route);
    KILL_HERE(TAKES_COMMITTED);
    DL_FOREACH (server->router->all, route)
        finish_put(route);
    sort_messages();
    DL_FOREACH (server->queues->all, queue)
        if (queue->route && !finish_take(queue->route))
            return false;
    for (size_t i = 0; i < found.n; i++)
        look_at_message(server, found.message[i]);
    DL_FOREACH (server->router->all, route)
        if (!fill_backlog(route))
            return false;
    DL_FOREACH (server->queues->all, queue)
        if (queue->route)
            queue->route->message = NULL;
    KILL_HERE(BACKLOGS_FILLED);
    forget_undue(server);
    return sweep(server);
}

bool router_finish_restoring(struct server *server)
{
    struct router *router = server->router;
    struct queue *queue;
    struct route *route;
    bool all = restore_messages(server);

    restored_forget(&restored);
    free(found.message);
    found.message = NULL;
    found.n = found.size = 0;
    if (!all)
        return false;
    KILL_HERE(NPUD_SWEPT);
    kept_commit();
    KILL_HERE(MESSAGES_CERTAIN);
    router->unkept = false;
    DL_FOREACH (router->all, route) {
        if (route->backlog.n > 0)
            route_wait_for_turn(route);
        route_check_over(route);
    }
    DL_FOREACH (server->queues->all, queue)
        if (queue->route)
            relay_begin_again(queue->route);
    route_reap(router);
    return true;
}
