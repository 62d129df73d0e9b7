#include "daemon/buffers/queue_rest.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/buffers/chain.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "proto/shm/mbuf_ref.h"

#define MESSAGES_AT_ONCE 4 /* each is up to MBUF_CHAIN_MAX buffers */

bool queue_take_out(struct server *server, const struct queue_view *ring, uint32_t ref,
                    enum mbuf_state state, uint32_t number)
{
    struct mbuf *m = mbuf_at(segments_table(server), ref);
    uint64_t w;

    if (!m)
        return false;
    w = atomic_load(&m->word);
    return mbuf_state(w) == MBUF_SENDING && mbuf_queue(w) == ring->number &&
           atomic_compare_exchange_strong(
               &m->word, &w, mbuf_word(mbuf_generation(w) + 1, state, PEER_NPUD, number));
}

/* False: there are more. */
static bool free_some(struct queue_rest *rest)
{
    const struct queue_view *ring = &rest->ring.view;

    for (unsigned n = 0; n < MESSAGES_AT_ONCE; n++) {
        uint32_t ref = rest->left > 0 ? queue_next(ring, &rest->position) : 0;

        if (ref == 0)
            return true;
        rest->left--;
        if (queue_take_out(rest->server, ring, ref, MBUF_HELD, 0))
            chain_free(rest->server, ref);
    }
    return false;
}

/* Buffers that falsely claimed to be in this ring are free from now on. */
static void rest_free(struct queue_rest *rest)
{
    struct server *server = rest->server;

    job_cancel(&rest->job);
    DL_DELETE(server->queues->rests, rest);
    server->queues->by_number[rest->ring.view.number] = NULL;
    queue_ring_free(&rest->ring, rest->user);
    user_uncharge(&rest->charge_fds);
    user_uncharge(&rest->charge_memory);
    user_unref(rest->user);
    free(rest);
    pools_look_at_orphans(server->pools);
}

static bool run_rest(struct job *job)
{
    struct queue_rest *rest = (struct queue_rest *)((char *)job - offsetof(struct queue_rest, job));

    while (!free_some(rest))
        if (schedule_step_over(&rest->server->schedule))
            return true;
    rest_free(rest);
    return false;
}

/* Without memory it is done at once. */
static void free_at_once(struct queue *queue, uint64_t position)
{
    struct queue_rest rest = {.server = queue->server,
                              .ring = queue->ring,
                              .position = position,
                              .left = queue->ring.view.mask + 1};

    while (!free_some(&rest))
        ;
    pools_look_at_orphans(queue->server->pools);
}

void queue_rest_begin(struct queue *queue)
{
    struct server *server = queue->server;
    uint64_t position = queue_end(&queue->ring.view, QUEUE_DEAD, segments_table(server));
    struct queue_rest *rest = calloc(1, sizeof(*rest));

    queue_ring_wake(&queue->ring.view);
    if (!rest) {
        free_at_once(queue, position);
        return;
    }
    *rest = (struct queue_rest){.server = server,
                                .user = user_hold(queue->user),
                                .ring = queue->ring,
                                .charge_fds = queue->charge_fds,
                                .charge_memory = queue->charge_memory,
                                .position = position,
                                .left = queue->ring.view.mask + 1};
    rest->job = (struct job){run_rest, "end of a queue", &queue->user->payer->schedule.left};
    DL_APPEND(server->queues->rests, rest);
    queue->ring = QUEUE_RING_NONE;
    queue->charge_fds = queue->charge_memory = (struct charge){0};
    server->queues->by_number[rest->ring.view.number] = QUEUE_NUMBER_KEPT;
    if (free_some(rest))
        rest_free(rest);
    else
        job_list(&rest->job);
}

void queue_rests_deinit(struct queues *queues)
{
    while (queues->rests) {
        struct queue_rest *rest = queues->rests;

        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): those before it were taken out of the list */
        while (!free_some(rest))
            ;
        rest_free(rest);
    }
}
