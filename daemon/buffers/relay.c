#include "daemon/buffers/relay.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/route.h"
#include "daemon/core/server.h"
#include "daemon/kept/record.h"
#include "proto/util/futex.h"

#define UNSTARVE_AT_ONCE 32 /* relays, before others have their turn */

/* --- which relay has something to do --- */

void relay_make_ready(struct relay *relay)
{
    job_list(&relay->turn);
}

void relay_starve(struct relay *relay)
{
    struct router *router = relay->server->router;

    if (relay->starved)
        return;
    relay->starved = true;
    relay->server->users.awaits_memory = &router->memory_came;
    router->n_starved++;
    DL_APPEND2(router->starved, relay, starved_prev, starved_next);
}

static void stop_starving(struct relay *relay)
{
    struct router *router = relay->server->router;

    if (!relay->starved)
        return;
    relay->starved = false;
    router->n_starved--;
    DL_DELETE2(router->starved, relay, starved_prev, starved_next);
}

/* Those that find no memory again stand behind the others. */
static void unstarve_some(struct router *router)
{
    if (router->to_unstarve > router->n_starved)
        router->to_unstarve = router->n_starved;
    for (unsigned n = 0; n < UNSTARVE_AT_ONCE && router->to_unstarve > 0; n++) {
        struct relay *relay = router->starved;

        router->to_unstarve--;
        stop_starving(relay);
        relay_make_ready(relay);
    }
}

static bool run_unstarve(struct job *job)
{
    struct router *router = (struct router *)((char *)job - offsetof(struct router, unstarve));

    unstarve_some(router);
    return router->to_unstarve > 0;
}

void relay_unstarve_all(struct router *router)
{
    router->to_unstarve = router->n_starved;
    unstarve_some(router);
    if (router->to_unstarve > 0)
        job_list(&router->unstarve);
}

static bool run_memory_came(struct job *job)
{
    relay_unstarve_all((struct router *)((char *)job - offsetof(struct router, memory_came)));
    return false;
}

void relays_init(struct router *router, struct job_owner *owner)
{
    router->unstarve = (struct job){run_unstarve, "queues that wait for memory", owner};
    router->memory_came = (struct job){run_memory_came, "queues that wait for memory", owner};
}

void relays_deinit(struct router *router)
{
    router->server->users.awaits_memory = NULL;
    job_cancel(&router->memory_came);
    job_cancel(&router->unstarve);
}

/* --- the bits by which a client knows that npud sleeps --- */

struct queue_view *relay_view(struct relay *relay)
{
    return &relay->queue->ring.view;
}

void relay_arm(struct relay *relay, _Atomic uint64_t *waiting)
{
    relay->armed = true;
    atomic_fetch_or(waiting, QUEUE_ROUTER);
    atomic_thread_fence(memory_order_seq_cst);
}

void relay_disarm(struct relay *relay)
{
    if (!relay->armed)
        return;
    relay->armed = relay->awaits_room = false;
    atomic_fetch_and(&relay_view(relay)->put->waiting, ~(uint64_t)QUEUE_ROUTER);
    atomic_fetch_and(&relay_view(relay)->take->waiting, ~(uint64_t)QUEUE_ROUTER);
}

void relay_wake(struct relay *relay, _Atomic uint64_t *waiting, _Atomic uint32_t *word)
{
    uint32_t w = queue_waiting(waiting);

    if (w & ~QUEUE_ROUTER) {
        queue_change(word);
        futex_wake_one(word);
    }
    /* It was a destination whose backlog is still being delivered when it became a source. */
    if (w & QUEUE_ROUTER)
        relay_make_ready(relay);
}

/* --- life, and the descriptor by which clients wake npud --- */

#define RELAY_MEMBERS(DO)                                                                          \
    DO##DERIVED(serial, o->queue->serial);                                                         \
    DO##DERIVED(bell_key, kept_key(o->bell));                                                      \
    DO##SAME(gone, gone);                                                                          \
    DO##SAME(parting, parting);

RECORD_LIVE(static, relay, RELAY, struct relay, kept, struct relay_record, RELAY_MEMBERS, live)

/* Without a record. */
static struct relay *make_relay(struct queue *queue)
{
    struct relay *relay = calloc(1, sizeof(*relay));

    if (!relay)
        return NULL;
    relay->server = queue->server;
    relay->queue = queue;
    relay->turn = (struct job){relay->server->router->turn, "move messages",
                               &queue->user->payer->schedule.carried};
    relay->bell = -1;
    queue->route = relay;
    return relay;
}

struct relay *relay_get(struct queue *queue)
{
    struct relay *relay = queue->route;

    if (relay)
        return relay;
    relay = make_relay(queue);
    if (!relay || relay_keep(relay))
        return relay;
    relay_free(relay);
    return NULL;
}

void relay_close_bell(struct relay *relay)
{
    if (relay->on_bell)
        event_free(relay->on_bell);
    if (relay->bell >= 0) {
        kept_fd_leave(relay->bell);
        deferred_close_watched(relay->queue->user->payer, relay->bell);
        kept_touch(&relay->kept);
    }
    user_uncharge(&relay->charge_bell);
    relay->on_bell = NULL;
    /*
     * It may have been rung, which no turn has answered yet, or of which npud has not heard. The
     * client may stop now, and what a ring makes npud do is right without one, too.
     */
    relay->rung |= relay->bell >= 0;
    relay->bell = -1;
}

void relay_free(struct relay *relay)
{
    assert(!relay->out && !relay->in && !relay->waiting && !relay->message);
    relay_disarm(relay);
    job_cancel(&relay->turn);
    stop_starving(relay);
    relay_close_bell(relay);
    kept_drop(&relay->kept);
    relay->queue->route = NULL;
    free(relay);
}

void relay_check_used(struct relay *relay)
{
    if (relay && !relay->out && !relay->in && relay->bell < 0 && relay->queue->n_bells == 0)
        relay_free(relay);
}

void relay_rung(struct relay *relay)
{
    relay->rung = true;
    relay_make_ready(relay);
}

/*
 * Told of once per ring: else each round of the loop would tell of thousands that wait for their
 * turn.
 */
static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    relay_rung(arg);
}

/*
 * Routes that wait for a slot try again: the client that freed one may have stopped before it told
 * npud. The bell of 0.9.0 is emptied by a read that cannot block, whatever its clients have made of
 * it.
 */
void relay_answer_bell(struct relay *relay)
{
    struct route *route;
    eventfd_t count;
    struct iovec iov = {.iov_base = &count, .iov_len = sizeof(count)};

    if (!relay->rung)
        return;
    relay->rung = false;
    if (relay->bell >= 0)
        (void)!preadv2(relay->bell, &iov, 1, -1, RWF_NOWAIT);
    if (relay->n_wait_in == 0)
        return;
    DL_FOREACH2 (relay->out, route, out_next)
        if (route->waits_in)
            route_try_again(route);
    DL_FOREACH2 (relay->in, route, in_next)
        if (route->waits_in)
            route_try_again(route);
}

static bool hear_bell(struct relay *relay)
{
    if (relay->bell >= 0)
        relay->on_bell = event_new(relay->server->base, relay->bell, EV_READ | EV_ET | EV_PERSIST,
                                   on_bell, relay);
    return relay->on_bell && event_add(relay->on_bell, NULL) == 0;
}

/* --- what its queue is told --- */

/* Does npud put messages there, were it only the last ones of a route that has ended? */
static bool puts_there(const struct relay *relay)
{
    const struct route *route;

    if (relay->n_in > 0 || relay->waiting)
        return true;
    DL_FOREACH2 (relay->in, route, in_next)
        if (route->backlog.n > 0 || route->backlog.reserved)
            return true;
    return false;
}

void relay_tell_queue(struct relay *relay)
{
    relay->queue->routes_from = relay->n_out;
    relay->queue->routes_to = relay->n_in > 0 ? relay->n_in : puts_there(relay);
    queue_routed(relay->queue);
}

void relay_check_puts(struct relay *relay)
{
    if (relay->n_in > 0)
        relay->queue->routes_to = relay->n_in;
    if (relay->queue->routes_to == 0 || puts_there(relay))
        return;
    if (relay->gone == 0) {
        relay_tell_queue(relay);
        return;
    }
    relay->queue->routes_to = 0;
    queue_party_left(relay->queue, QUEUE_PUT, relay->gone);
    relay->gone = 0;
    kept_touch(&relay->kept);
}

/* --- over the end of npud --- */

bool relay_restore(struct server *server, struct kept_cell *cell)
{
    struct relay_record r;
    struct queue *queue;
    struct relay *relay;

    kept_read(cell, &r, sizeof(r));
    queue = queue_restored(r.serial);
    relay = queue && !queue->route ? make_relay(queue) : NULL;
    if (!relay || !relay_back(server, relay, cell, &r))
        return false;
    relay->armed = true; /* maybe: then its first turn takes the bits away */
    relay->rung = true;
    if (r.bell_key == 0)
        return true;
    relay->bell = kept_fd_take(r.bell_key);
    user_charge_again(&relay->charge_bell, queue->user, RESOURCE_FDS, 1, false);
    return hear_bell(relay);
}

void relay_begin_again(struct relay *relay)
{
    const struct queue_view *v = relay_view(relay);
    uint64_t head = queue_head_position(atomic_load(&v->take->head));

    /* Which of them are npud's is not known any more. */
    relay->n_copies = queue_fill(v);
    relay->copies_end = head + relay->n_copies;
    relay->at = relay->out;
    relay_tell_queue(relay);
    /* The npud before may have put the last message, and woken no consumer. */
    if (relay->gone != 0 && relay->queue->routes_to == 0)
        relay->queue->routes_to = 1;
    relay_check_puts(relay);
    relay_make_ready(relay);
}
