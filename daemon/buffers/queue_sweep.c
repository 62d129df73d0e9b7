#include "daemon/buffers/queue_sweep.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/log.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/survivor.h"

/* --- what is in a ring --- */

static int compare_refs(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/*
 * Each slot is read once, because the members of the queue go on putting and taking meanwhile.
 * Taken and not committed counts.
 */
static bool sweep_ring(struct queue *queue)
{
    const struct queue_view *v = &queue->ring.view;
    uint64_t since = atomic_load(&v->take->committed);
    uint32_t ref;

    if (!queue->swept)
        queue->swept = calloc(v->mask + 1, sizeof(*queue->swept));
    if (!queue->swept)
        return false;
    queue->n_swept = 0;
    for (uint32_t i = 0; i <= v->mask; i++) {
        ref = queue_slot_since(v, i, since);
        if (ref != 0)
            queue->swept[queue->n_swept++] = ref;
    }
    if (queue->n_swept > 0)
        qsort(queue->swept, queue->n_swept, sizeof(*queue->swept), compare_refs);
    queue->swept_in = queue->server->queues->sweeping;
    return true;
}

/* From the first message on, which is likely to be of the segment that the caller asks about. */
static bool find_now(const struct queue *queue, uint32_t ref)
{
    const struct queue_view *v = &queue->ring.view;
    uint64_t since = atomic_load(&v->take->committed);

    for (uint32_t i = 0; i <= v->mask; i++)
        if (queue_slot_since(v, (uint32_t)(since + i) & v->mask, since) == ref)
            return true;
    return false;
}

bool queue_sweep_has(struct queue *queue, uint32_t ref)
{
    struct queues *queues = queue->server->queues;

    if (!queues->sweeping || (queue->swept_in != queues->sweeping && !sweep_ring(queue)))
        return find_now(queue, ref);
    return queue->n_swept > 0 &&
           bsearch(&ref, queue->swept, queue->n_swept, sizeof(ref), compare_refs) != NULL;
}

bool queue_sweep_sent(const struct segment *segment, uint32_t number, uint32_t ref)
{
    struct queue *queue = queue_by_number(segment->pool->server, number);

    return queue && queue_allows_map(queue, segment) && queue_sweep_has(queue, ref);
}

/* --- the end of a session --- */

static void sweep_attachment(struct queue_attach *attach)
{
    struct queue *queue = attach->queue;
    struct session *session = attach->peer->session;
    const struct queue_view *v;
    uint32_t id = queue->id;
    int r;

    attach->leaving = true;
    /* It would go on in a ring where npud knows it no more. */
    if (queue_attach_is_shared(attach) && survivor_of_session(session)) {
        r = queue_move_or_destroy(queue);
        if (r < 0) {
            log_line(LOG_ERR, &session->log,
                     "its session has ended and its process lives; npud could not make a new ring "
                     "for queue %u, so the queue was destroyed: %s",
                     id, strerror(-r));
            return;
        }
    }
    v = &queue->ring.view;
    queue_commit(v, atomic_load(&v->take->head), segments_table(queue->server));
    queue_party_left(queue, attach->rights, session->pid);
}

bool queue_sweep_attachment(struct peer *peer)
{
    struct queue_attach *attach = peer->attached;

    if (!attach || attach->leaving)
        return true;
    DL_DELETE(peer->attached, attach);
    DL_APPEND(peer->attached, attach);
    sweep_attachment(attach);
    return false;
}

void queue_sweep_begin(struct peer *peer)
{
    struct queues *queues = peer->server->queues;

    if (peer->sweep_number == 0)
        peer->sweep_number = ++queues->sweeps;
    queues->sweeping = peer->sweep_number;
}

void queue_sweep_pause(struct peer *peer)
{
    peer->server->queues->sweeping = 0;
}

/* The queue goes with it. */
static bool is_last(const struct queue_attach *attach)
{
    return attach->queue->attached == attach && !attach->qnext && !attach->queue->grants;
}

bool queue_sweep_leave(struct peer *peer)
{
    struct queue_attach *attach = peer->attached;
    struct queue *queue = attach ? attach->queue : NULL;

    if (!attach)
        return true;
    if (is_last(attach) && !peer->server->ending && peer->server->queues->on_ending &&
        !peer->server->queues->on_ending(queue))
        return false;
    queue_attach_free(attach);
    queue_check_used(queue);
    return false;
}
