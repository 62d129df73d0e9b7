#include "daemon/buffers/buffers.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/buffers/grant.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/sweep.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/survivor.h"

/* --- npud --- */

int buffers_init(struct server *server)
{
    static const struct pools_above above = {
        .freed = router_slot_freed,
        .mapped = queue_segment_mapped,
        .sent = queue_sweep_sent,
        .holds = router_holds,
    };
    int r = peers_init(server->peers);

    if (r == 0)
        r = pools_init(server->pools, server->base, &above);
    if (r == 0)
        r = queues_init(server->queues, server->base);
    return r < 0 ? r : router_init(server);
}

void buffers_deinit(struct server *server)
{
    router_deinit(server);
    queues_deinit(server->queues);
    pools_deinit(server->pools);
    peers_deinit(server->peers);
}

/* --- the end of a session --- */

static void forget_maps(struct peer *peer)
{
    struct segment_map *map, *tmp;

    HASH_ITER (hh, peer->maps, map, tmp)
        segment_unmap(map);
}

/* The process has exited: what it held is freed, and its peer id. */
static void peer_exited(struct survivor_part *part)
{
    struct peer *peer = (struct peer *)((char *)part - offsetof(struct peer, left));

    sweep_peer(peer);
    forget_maps(peer);
    assert(!peer->attached && !peer->routes);
    peer->server->peers->by_number[peer->number].left = NULL;
    free(peer);
}

/*
 * The peer is the survivor's from here on. Before the pool is left, which looks whether anything in
 * it is still in use.
 */
static void leave_to(struct survivor *survivor, struct peer *peer)
{
    survivor_add(survivor, &peer->left, peer_exited);
    peer->server->peers->by_number[peer->number].left = peer;
    segments_left(peer);
    peer->session = NULL;
}

void buffers_session_end(struct session *session)
{
    struct peer *peer = session->peer;
    struct peer_slot *number = &session->server->peers->by_number[session->peer_id];
    struct survivor *survivor = peer && peer->maps ? survivor_of(session) : NULL;

    if (peer) {
        grant_asks_no_more(peer);
        queue_reader_ended(peer);
        queue_sweep_begin(peer);
        if (!survivor)
            sweep_peer(peer);
        queue_sweep_end(peer);
        router_session_gone(peer);
        number->session = NULL;
        session->peer = NULL;
        if (survivor)
            leave_to(survivor, peer);
        else
            forget_maps(peer);
        pool_leave(peer);
        if (!survivor)
            free(peer);
    }
    if (session->peer_id != PEER_NPUD)
        number->session = NULL;
    session->peer_id = PEER_NPUD;
}
