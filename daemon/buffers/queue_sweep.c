#include "daemon/buffers/queue_sweep.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/file_pages.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/survivor.h"

/* --- what is in a ring --- */

#define SLOTS_MAX  (2 * QUEUE_DEPTH_MAX) /* of a ring */
#define DIGIT_BITS 8
#define DIGITS     (1u << DIGIT_BITS)
#define SAME_MAX   4 /* a ref is in a ring once, unless a hostile peer has written there */

static unsigned digit_of(uint64_t message, unsigned shift)
{
    return (unsigned)(message >> shift) & (DIGITS - 1);
}

/* A sort that takes no longer for any refs. */
static void sort_by_digit(const uint64_t *from, uint64_t *to, uint32_t n, unsigned shift)
{
    uint32_t at[DIGITS] = {0}, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        at[digit_of(from[i], shift)]++;
    for (uint32_t d = 0; d < DIGITS; d++) {
        uint32_t count = at[d];

        at[d] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++)
        to[at[digit_of(from[i], shift)]++] = from[i];
}

/* By their refs. */
static void sort_messages(uint64_t *messages, uint32_t n)
{
    static uint64_t other[SLOTS_MAX]; /* one control thread */

    for (unsigned shift = 32; shift < 64; shift += 2 * DIGIT_BITS) {
        sort_by_digit(messages, other, n, shift);
        sort_by_digit(other, messages, n, shift + DIGIT_BITS);
    }
}

/*
 * The next slots from *from on that were ever written: [*from, *to). False: none. To look at the
 * others would make them memory, which takes longer than all the rest.
 */
static bool find_touched(const struct queue *queue, uint32_t *from, uint32_t *to)
{
    const struct queue_view *v = &queue->ring.view;
    const size_t first = sizeof(struct queue_put), size = sizeof(struct queue_slot);
    size_t data = (first + *from * size) & ~(SEGMENT_PAGE - 1), hole;

    if (*from > v->mask ||
        !file_pages_next(queue->ring.put_fd, v->put, queue_put_size(v->depth), &data, &hole))
        return false;
    if (data > first && (data - first) / size > *from)
        *from = (uint32_t)((data - first) / size);
    *to = v->mask + 1;
    if ((hole - first) / size < *to)
        *to = (uint32_t)((hole - first) / size);
    return *from <= v->mask;
}

/*
 * Each slot is read once, because the members of the queue go on putting and taking meanwhile.
 * Taken and not committed counts. All of the ring in one go: a message that is put meanwhile is of
 * no interest, but a pass that other puts can end would have no end.
 */
static bool remember_ring(struct queue *queue)
{
    const struct queue_view *v = &queue->ring.view;
    uint64_t since = atomic_load(&v->take->committed);
    uint32_t ref;

    if (!queue->swept)
        queue->swept = calloc(v->mask + 1, sizeof(*queue->swept));
    if (!queue->swept)
        return false;
    queue->n_swept = 0;
    queue->swept_at = ++queue->server->queues->moment;
    for (uint32_t i = 0, to; find_touched(queue, &i, &to);)
        for (; i < to; i++) {
            ref = queue_slot_since(v, i, since);
            if (ref != 0)
                queue->swept[queue->n_swept++] = (uint64_t)ref << 32 | i;
        }
    sort_messages(queue->swept, queue->n_swept);
    return true;
}

/* Is what npud remembers of the ring later than all that the sender has put there? */
static bool is_remembered(const struct queue *queue, uint32_t sender)
{
    return queue->swept_at > (sender == PEER_NPUD
                                  ? queue->carried_at
                                  : queue->server->peers->by_number[sender].ended_at);
}

/* The first message that is remembered, of this ref or a higher one. */
static uint32_t find_remembered(const struct queue *queue, uint32_t ref)
{
    uint32_t from = 0, to = queue->n_swept;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (queue->swept[middle] >> 32 < ref)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* It was there. Consumers may have passed it over since, and then its word says nothing. */
static bool is_still_there(const struct queue *queue, uint32_t ref)
{
    const struct queue_view *v = &queue->ring.view;
    uint64_t since = atomic_load(&v->take->committed);
    uint32_t at = find_remembered(queue, ref);

    for (uint32_t n = 0; n < SAME_MAX && at < queue->n_swept; n++, at++) {
        if (queue->swept[at] >> 32 != ref)
            break;
        if (queue_slot_since(v, (uint32_t)queue->swept[at], since) == ref)
            return true;
    }
    return false;
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

bool queue_sweep_has(struct queue *queue, uint32_t ref, uint32_t sender)
{
    if (!is_remembered(queue, sender) && !remember_ring(queue))
        return find_now(queue, ref);
    return is_still_there(queue, ref);
}

bool queue_sweep_sent(const struct segment *segment, uint32_t number, uint32_t ref, uint32_t sender)
{
    struct server *server = segment->pool->server;
    struct queue *queue = queue_by_number(server, number);

    if (queue_moves_from(server->queues, number))
        return true; /* maybe; pools are looked at again when all has moved */
    return queue && queue_allows_map(queue, segment) && queue_sweep_has(queue, ref, sender);
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
    /* It would go on in a ring where npud knows it no more. One that ends has no other ring. */
    if (!queue->ends && queue_attach_is_shared(attach) && survivor_of_session(session)) {
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
    if (!queue->ends)
        queue_commit(v, atomic_load(&v->take->head), segments_table(queue->server));
    queue_party_left(queue, attach->rights, session->pid);
    attach->told = true;
    KILL_HERE(PARTY_LEFT);
    kept_touch(&attach->kept);
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

void queue_sweep_puts_end(struct peer *peer)
{
    peer->server->peers->by_number[peer->number].ended_at = ++peer->server->queues->moment;
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
    if ((is_last(attach) || (queue->ended_by && queue->ended_by == peer->session)) &&
        !peer->server->ending && !queue_finish_some(queue, attach))
        return false;
    queue_attach_free(attach);
    queue_check_used(queue);
    return false;
}
