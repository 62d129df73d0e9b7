/* Which segments the readers of a queue may map: the last part of queue.h. */
#include "daemon/buffers/queue.h"

#include <stdlib.h>
#include <utlist.h>

#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

#define MAP_WORDS (SEGMENT_IDS / 64)

bool queue_allow_map_prepare(struct queue *queue)
{
    if (__builtin_expect(!queue->map_allowed, 0))
        queue->map_allowed = calloc(MAP_WORDS, sizeof(*queue->map_allowed));
    return queue->map_allowed != NULL;
}

bool queue_allow_map(struct queue *queue, struct segment *segment)
{
    uint32_t id = segment->view.id;

    if (!queue_allow_map_prepare(queue))
        return false;
    queue->map_allowed[id / 64] |= UINT64_C(1) << id % 64;
    return true;
}

bool queue_allows_map(const struct queue *queue, const struct segment *segment)
{
    uint32_t id = segment->view.id;

    return queue->map_allowed && queue->map_allowed[id / 64] >> id % 64 & 1;
}

bool queue_session_may_map(struct session *session, struct segment *segment)
{
    struct queue_attach *attach;

    if (session->peer)
        DL_FOREACH (session->peer->attached, attach)
            if (attach->rights & QUEUE_TAKE && queue_allows_map(attach->queue, segment))
                return true;
    return false;
}

bool queue_pass_on(struct session *session, struct segment *segment)
{
    struct segment_map *map = segment_find_map(session, segment);

    if (segment->pool->session == session)
        return true;
    /* `lost` may be behind: the owner may have put its buffers into another queue meanwhile. */
    if (!map || (map->lost && !queue_session_may_map(session, segment)))
        return false;
    map->passed_on = true;
    return true;
}

void queue_take_lost(struct session *session, const struct queue *queue)
{
    struct segment_map *map, *tmp;

    HASH_ITER (hh, session->peer->maps, map, tmp)
        if (map->passed_on && queue_allows_map(queue, map->segment)) {
            segment_spoil(map->segment);
            segment_give_back(map->segment);
        }
}

void queue_rights_changed(struct session *session)
{
    struct segment_map *map, *tmp;

    if (!session->peer)
        return;
    HASH_ITER (hh, session->peer->maps, map, tmp)
        if (map->segment->pool->session != session) {
            bool had = !map->lost;

            segment_map_set_lost(map, !queue_session_may_map(session, map->segment));
            /* Its owner puts nothing there any more: if nothing is there, it goes. */
            if (had && map->lost)
                segment_give_back(map->segment);
        }
}

void queue_segment_gone(struct segment *segment)
{
    uint32_t id = segment->view.id;
    struct queue *queue;

    DL_FOREACH (segment->pool->server->queues->all, queue)
        if (queue->map_allowed)
            queue->map_allowed[id / 64] &= ~(UINT64_C(1) << id % 64);
}
