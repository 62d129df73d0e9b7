#include "client/buffers/mapped_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/buffers/queue.h"
#include "proto/util/kill_point.h"

void queue_use_ring(struct ring *ring)
{
    atomic_fetch_add_explicit(&ring->uses, 1, memory_order_relaxed);
}

void queue_drop_ring(struct ring *ring)
{
    uint32_t uses = atomic_fetch_sub_explicit(&ring->uses, 1, memory_order_acq_rel);

    assert(uses > 0);
    if (uses != 1)
        return;
    if (ring->view.put)
        munmap(ring->view.put, queue_put_size(ring->view.depth));
    if (ring->view.take)
        munmap(ring->view.take, queue_take_size());
    if (ring->view.news)
        munmap(ring->view.news, QUEUE_NEWS_SIZE);
    queue_bell_close(&ring->bell);
    for (size_t i = 0; i < sizeof(ring->allowed) / sizeof(ring->allowed[0]); i++)
        free(ring->allowed[i]);
    free(ring);
}

/*
 * Populated: the sender of the first message shall not pay for the page. NULL: could not be mapped.
 */
static void *map_file(int fd, size_t size, bool writable)
{
    void *map =
        mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED | MAP_POPULATE, fd, 0);

    if (map == MAP_FAILED)
        return NULL;
    /* A forked child has no business here: its stores would be ours. */
    madvise(map, size, MADV_DONTFORK);
    return map;
}

struct ring *mapped_ring_new(const Npud__QueueReply *reply, const int fds[QUEUE_FILES])
{
    struct ring *ring = aligned_alloc(alignof(struct ring), sizeof(*ring));
    struct queue_put *put;
    struct queue_take *take;
    struct queue_news *news;

    if (!ring)
        return NULL;
    memset(ring, 0, sizeof(*ring));
    ring->view.seen = &ring->head_seen;
    ring->rights = reply->rights & QUEUE_RIGHTS;
    ring->life = reply->serial;
    ring->uses = 1;
    ring->view.depth = reply->depth;
    ring->view.mask = queue_slots(reply->depth) - 1;
    ring->view.number = reply->number;
    ring->view.put = map_file(fds[0], queue_put_size(reply->depth), reply->rights & QUEUE_PUT);
    KILL_POINT(QUEUE_MAPPED);
    ring->view.take = map_file(fds[1], queue_take_size(), reply->rights & QUEUE_TAKE);
    ring->view.news = map_file(fds[2], QUEUE_NEWS_SIZE, false);
    if (!ring->view.put || !ring->view.take || !ring->view.news) {
        queue_drop_ring(ring);
        return NULL;
    }
    put = ring->view.put;
    take = ring->view.take;
    news = ring->view.news;
    ring->side[0] = (struct ring_side){&news->takes, &take->waiting, &put->wake, QUEUE_TAKE};
    ring->side[1] = (struct ring_side){&news->puts, &put->waiting, &take->wake, QUEUE_PUT};
    return ring;
}
