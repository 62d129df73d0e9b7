#include "daemon/buffers/peer.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/survivor.h"
#include "daemon/buffers/sweep.h"
#include "proto/shm/mbuf_shm.h"

int peers_init(struct peers *peers)
{
    /* A megabyte of which only the pages with sessions in them are ever touched. */
    peers->by_number = calloc(PEER_MAX + 1, sizeof(struct peer_slot));
    return peers->by_number ? 0 : -ENOMEM;
}

void peers_deinit(struct peers *peers)
{
    free(peers->by_number);
    *peers = (struct peers){0};
}

static bool take_number(struct session *session, uint32_t range)
{
    struct peers *peers = session->server->peers;

    for (uint32_t i = 0; i < range; i++) {
        struct peer_slot *n;

        peers->last = peers->last % range + 1;
        n = &peers->by_number[peers->last];
        if (n->session || n->left)
            continue;
        n->session = session;
        session->peer_id = peers->last;
        return true;
    }
    return false;
}

/*
 * Numbers are used again as late as possible, but while few are in use from 1 again after 1023: a
 * few pages of the table serve most hosts.
 */
bool peer_give_id(struct session *session)
{
    return (session->server->n_sessions < 512 && take_number(session, 1023)) ||
           take_number(session, PEER_MAX);
}

struct session *peer_session(struct server *server, uint32_t number)
{
    return number <= PEER_MAX ? server->peers->by_number[number].session : NULL;
}

struct peer *peer_left(struct server *server, uint32_t number)
{
    return number <= PEER_MAX ? server->peers->by_number[number].left : NULL;
}

struct peer *peer_get(struct session *session)
{
    if (!session->shared) {
        session->shared = calloc(1, sizeof(*session->shared));
        if (session->shared)
            *session->shared = (struct peer){
                .server = session->server, .session = session, .number = session->peer_id};
    }
    return session->shared;
}

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

    peer_sweep(peer);
    forget_maps(peer);
    peer->server->peers->by_number[peer->number].left = NULL;
    free(peer);
}

/*
 * The peer is the survivor's from here on. Before the pool is left, which looks whether anything in
 * it is anybody's.
 */
static void leave_to(struct survivor *survivor, struct peer *peer)
{
    survivor_add(survivor, &peer->left, peer_exited);
    peer->server->peers->by_number[peer->number].left = peer;
    segments_left(peer);
    peer->session = NULL;
}

void peer_free(struct session *session)
{
    struct peer *peer = session->shared;
    struct peer_slot *number = &session->server->peers->by_number[session->peer_id];
    struct survivor *survivor = peer && peer->maps ? survivor_of(session) : NULL;

    if (peer) {
        queue_sweep(peer);
        if (!survivor)
            peer_sweep(peer);
        queues_leave(peer);
        router_session_gone(peer);
        number->session = NULL;
        session->shared = NULL;
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
