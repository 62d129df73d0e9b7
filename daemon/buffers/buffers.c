#include "daemon/buffers/buffers.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
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
    int r = peers_init(server->peers, &server->schedule.own);

    if (r == 0)
        r = pools_init(server->pools, &server->schedule.own, &above);
    if (r == 0)
        r = queues_init(server->queues, &server->schedule.own);
    return r < 0 ? r : router_init(server);
}

void buffers_deinit(struct server *server)
{
    router_deinit(server);
    queues_deinit(server->queues);
    pools_deinit(server->pools);
    peers_deinit(server->peers);
}

/* --- the end of a session, a piece at a time; true: this part is over --- */

static bool sweep_segments(struct peer *peer)
{
    if (!peer->puts_ended)
        queue_sweep_puts_end(peer);
    peer->puts_ended = true;
    return sweep_peer_piece(peer);
}

static bool forget_map(struct peer *peer)
{
    if (!peer->maps)
        return true;
    segment_unmap(peer->maps);
    return false;
}

/* The process has exited: what it held is freed, and its peer id. */
static bool peer_exited(struct survivor_part *part)
{
    struct peer *peer = (struct peer *)((char *)part - offsetof(struct peer, left));

    if (!peer->swept) {
        peer->swept = sweep_segments(peer);
        KILL_HERE(PEER_SWEPT);
        return false;
    }
    if (!forget_map(peer))
        return false;
    assert(!peer->attached && !peer->routes);
    kept_drop(&peer->kept);
    peer->server->peers->by_number[peer->number].left = NULL;
    free(peer);
    return true;
}

/*
 * A survivor keeps what the process has mapped until the process has exited. Without memory for
 * that, also for the record of the peer, which the records of its maps name, the process is taken
 * for one that has exited.
 */
static bool begin_leaving(struct peer *peer)
{
    grant_asks_no_more(peer);
    peer->survivor = peer->maps ? survivor_of(peer->session) : NULL;
    if (peer->survivor && !peer_keep(peer))
        peer->survivor = NULL;
    return true;
}

static bool sweep_own_segments(struct peer *peer)
{
    return peer->survivor || sweep_segments(peer);
}

static bool forget_own_map(struct peer *peer)
{
    return peer->survivor || forget_map(peer);
}

/*
 * The peer is the survivor's from here on. Before the pool is left, which looks whether anything in
 * it is still in use.
 */
static bool leave_to_survivor(struct peer *peer)
{
    struct peer_slot *slot = &peer->server->peers->by_number[peer->number];

    if (!peer->survivor)
        return true;
    if (!slot->left) {
        survivor_add(peer->survivor, &peer->left, peer_exited);
        slot->left = peer;
        queue_sweep_puts_end(peer);
    }
    return segments_left(peer);
}

static bool (*const parts[])(struct peer *peer) = {
    begin_leaving,     queue_reader_ended,  queue_sweep_attachment, sweep_own_segments,
    queue_sweep_leave, router_session_gone, forget_own_map,         leave_to_survivor,
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static void peer_leave(struct session *session, struct peer *peer)
{
    struct survivor *survivor = peer->survivor;

    peer_tell_no_more(peer);
    session->server->peers->by_number[session->peer_id].session = NULL;
    session->peer = NULL;
    if (survivor)
        peer->session = NULL;
    pool_leave(peer);
    if (!survivor)
        free(peer);
}

bool buffers_session_end(struct session *session)
{
    struct peer *peer = session->peer;

    if (peer && peer->end_part < PARTS) {
        peer->end_part += parts[peer->end_part](peer);
        return false;
    }
    if (peer)
        peer_leave(session, peer);
    if (session->peer_id != PEER_NPUD)
        session->server->peers->by_number[session->peer_id].session = NULL;
    session->peer_id = PEER_NPUD;
    kept_touch(&session->kept); /* the number may be another's from here on */
    return true;
}

/* --- over the end of npud --- */

bool buffers_restore_peer(struct server *server, struct kept_cell *cell)
{
    return peer_restore(server, cell, peer_exited);
}

/*
 * First what was in the rings that have ended, and in npud's hands; then rights, and what is free
 * of segments, which depends on that; then clients look.
 */
bool buffers_finish_restoring(struct server *server)
{
    struct session *session;

    queue_rests_finish_restoring(server->queues);
    KILL_HERE(RESTS_FINISHED);
    if (!router_finish_restoring(server))
        return false;
    KILL_HERE(ROUTES_FINISHED);
    pools_finish_restoring(server);
    KILL_HERE(POOLS_FINISHED);
    queues_finish_restoring(server);
    KILL_HERE(QUEUES_FINISHED);
    grants_finish_restoring(server);
    KILL_HERE(GRANTS_FINISHED);
    for (session = server->sessions; session; session = session->next)
        if (session->peer)
            session_tell_retired(session);
    return true;
}
