#include "daemon/buffers/queue_rest.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/schedule.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"

#define MOVED_AT_ONCE 16 /* a few microseconds, of which pages take most */
#define FREED_AT_ONCE 4  /* each is up to MBUF_CHAIN_MAX buffers */

struct queue_rest {
    struct server *server;
    struct user *user;
    struct queue *queue; /* whose messages are moved; NULL: they are freed */
    struct charge charge;
    struct job job;
    uint32_t number;                /* of the ring that has ended */
    uint32_t n, at;                 /* messages that were noted; the next one */
    uint64_t to;                    /* its position in the new ring */
    struct queue_rest *prev, *next; /* queues->rests */
    uint32_t ref[];
};

/*
 * The buffer of a message in a ring that has ended becomes npud's, or what state and number make of
 * it. False: it is none, or its sender has it back.
 */
static bool take_out(struct server *server, uint32_t ring, uint32_t ref, enum mbuf_state state,
                     uint32_t number)
{
    struct mbuf *m = mbuf_at(segments_table(server), ref);
    uint64_t w;

    if (!m)
        return false;
    w = atomic_load(&m->word);
    return mbuf_state(w) == MBUF_SENDING && mbuf_queue(w) == ring &&
           atomic_compare_exchange_strong(
               &m->word, &w, mbuf_word(mbuf_generation(w) + 1, state, PEER_NPUD, number));
}

static void free_message(struct server *server, uint32_t ring, uint32_t ref)
{
    if (take_out(server, ring, ref, MBUF_HELD, 0))
        chain_free(server, ref);
}

/* More messages than the depth were put by a hostile peer. */
static void move_message(struct queue_rest *rest, uint32_t ref)
{
    struct queue_view *new = &rest->queue->ring.view;

    if (rest->to == new->depth) {
        free_message(rest->server, rest->number, ref);
    } else if (take_out(rest->server, rest->number, ref, MBUF_SENDING, new->number)) {
        atomic_store(&new->put->slot[rest->to & new->mask].word, queue_slot_word(rest->to, ref));
        rest->to++;
    }
}

/* False: there are more. */
static bool do_some(struct queue_rest *rest)
{
    unsigned n =
        rest->queue && rest->to < rest->queue->ring.view.depth ? MOVED_AT_ONCE : FREED_AT_ONCE;

    for (; n > 0 && rest->at < rest->n; n--) {
        uint32_t ref = rest->ref[rest->at++];

        if (rest->queue)
            move_message(rest, ref);
        else
            free_message(rest->server, rest->number, ref);
    }
    if (rest->queue)
        queue_carried(rest->queue);
    return rest->at == rest->n;
}

static void end_move(struct queue *queue, uint64_t tail)
{
    struct queues *queues = queue->server->queues;

    atomic_store(&queue->ring.view.put->tail, tail);
    queue->rest = NULL;
    if (queues->on_moved)
        queues->on_moved(queue);
}

static void rest_free(struct queue_rest *rest)
{
    struct server *server = rest->server;

    job_cancel(&rest->job);
    DL_DELETE(server->queues->rests, rest);
    server->queues->by_number[rest->number] = NULL;
    if (rest->queue)
        end_move(rest->queue, rest->to);
    user_uncharge(&rest->charge);
    user_unref(rest->user);
    free(rest);
    /* Buffers that falsely claimed to be in the ring are free from now on. */
    pools_look_at_orphans(server->pools);
}

static bool run_rest(struct job *job)
{
    struct queue_rest *rest = (struct queue_rest *)((char *)job - offsetof(struct queue_rest, job));

    while (!do_some(rest))
        if (schedule_step_over(&rest->server->schedule))
            return true;
    rest_free(rest);
    return false;
}

static struct queue_rest *rest_new(struct queue *queue)
{
    const struct queue_view *ring = &queue->ring.view;
    struct queue_rest *rest = malloc(sizeof(*rest) + (ring->mask + 1) * sizeof(rest->ref[0]));

    if (!rest)
        return NULL;
    *rest = (struct queue_rest){
        .server = queue->server, .user = user_hold(queue->user), .number = ring->number};
    rest->job = (struct job){run_rest, "end of a ring", &queue->user->payer->schedule.left};
    DL_APPEND(queue->server->queues->rests, rest);
    return rest;
}

/*
 * All of them in one go: a session that has lost its right to put still writes to the ring, and
 * what it puts there from now on is no message. Returns the position of the first one.
 */
static uint64_t end_ring(struct queue_rest *rest, const struct queue_ring *ring,
                         enum queue_state why)
{
    const struct queue_view *v = &ring->view;
    uint64_t first = queue_end(v, why, segments_table(rest->server)), position = first;
    uint32_t ref;

    for (uint32_t i = 0; i <= v->mask && (ref = queue_next(v, &position)) != 0; i++)
        rest->ref[rest->n++] = ref;
    rest->server->queues->by_number[rest->number] = QUEUE_NUMBER_KEPT;
    queue_ring_wake(v);
    return first;
}

/* The first step now: most rings are empty, or nearly so. */
static void begin_steps(struct queue_rest *rest)
{
    if (run_rest(&rest->job))
        job_list(&rest->job);
}

/* --- a queue ends --- */

/* Without memory it is done at once. */
static void free_at_once(struct queue *queue)
{
    const struct queue_view *v = &queue->ring.view;
    uint64_t position = queue_end(v, QUEUE_DEAD, segments_table(queue->server));
    uint32_t ref;

    queue_ring_wake(v);
    for (uint32_t i = 0; i <= v->mask && (ref = queue_next(v, &position)) != 0; i++)
        free_message(queue->server, v->number, ref);
    pools_look_at_orphans(queue->server->pools);
}

void queue_rest_begin(struct queue *queue)
{
    struct queue_rest *rest;

    if (queue->rest)
        queue->rest->queue = NULL; /* what is still to be moved is freed, too */
    queue->rest = NULL;
    rest = rest_new(queue);
    if (!rest) {
        free_at_once(queue);
        return;
    }
    end_ring(rest, &queue->ring, QUEUE_DEAD);
    queue_ring_free(&queue->ring, queue->user);
    rest->charge = queue->charge_memory;
    queue->charge_memory = (struct charge){0};
    begin_steps(rest);
}

/* --- a queue moves --- */

int queue_move(struct queue *queue)
{
    struct queue_ring old = queue->ring, ring;
    struct queue_rest *rest;
    int r;

    if (queue->rest)
        return 0;
    r = queue_make_ring(queue, old.view.depth, &ring);
    if (r < 0)
        return r;
    rest = rest_new(queue);
    if (!rest) {
        queue_ring_free(&ring, queue->user);
        return -ENOMEM;
    }
    rest->queue = queue;
    queue->rest = rest;
    queue->ring = ring;
    queue->swept_at = 0;
    queue->server->queues->by_number[ring.view.number] = queue;
    queue_party_came(queue, 0); /* the new ring knows of none */
    queue->before += end_ring(rest, &old, QUEUE_MOVED);
    queue_ring_free(&old, queue->user);
    begin_steps(rest);
    return 0;
}

/*
 * To try again later would be worse for the others than the end of the queue: until then either the
 * process reads and overwrites their messages, or none of them may put or take, and they cannot
 * tell that from a peer that is slow.
 */
int queue_move_or_destroy(struct queue *queue)
{
    int r = queue_move(queue);

    if (r == 0)
        return 0;
    queue_ring_close(&queue->ring);
    r = queue_move(queue);
    if (r < 0)
        queue_finish(queue);
    return r;
}

bool queue_moves_from(const struct queues *queues, uint32_t number)
{
    const struct queue_rest *rest;

    if (number >= QUEUE_NUMBERS || queues->by_number[number] != QUEUE_NUMBER_KEPT)
        return false;
    DL_FOREACH (queues->rests, rest)
        if (rest->number == number)
            return rest->queue != NULL;
    return false;
}

/* --- npud ends --- */

void queue_rests_finish(struct queues *queues)
{
    while (queues->rests) {
        struct queue_rest *rest = queues->rests;

        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): those before it were taken out of the list */
        while (!do_some(rest))
            ;
        rest_free(rest);
    }
}
