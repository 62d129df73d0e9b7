#include "daemon/buffers/peer.h"

#include <errno.h>
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

int shares_init(struct shares *shares)
{
    /* A megabyte of which only the pages with sessions in them are ever touched. */
    shares->by_number = calloc(SHARE_MAX + 1, sizeof(struct share_number));
    return shares->by_number ? 0 : -ENOMEM;
}

void shares_deinit(struct shares *shares)
{
    free(shares->by_number);
    *shares = (struct shares){0};
}

static bool take_number(struct session *session, uint32_t range)
{
    struct shares *shares = &session->server->shares;

    for (uint32_t i = 0; i < range; i++) {
        struct share_number *n;

        shares->last = shares->last % range + 1;
        n = &shares->by_number[shares->last];
        if (n->session || n->left)
            continue;
        n->session = session;
        session->share = shares->last;
        return true;
    }
    return false;
}

/* Numbers are used again as late as possible, but while few are in use from 1 again after 1023: a few pages of the table serve most hosts. */
bool share_name(struct session *session)
{
    return (session->server->n_sessions < 512 && take_number(session, 1023)) ||
           take_number(session, SHARE_MAX);
}

struct session *share_session(struct server *server, uint32_t number)
{
    return number <= SHARE_MAX ? server->shares.by_number[number].session : NULL;
}

struct share *share_left(struct server *server, uint32_t number)
{
    return number <= SHARE_MAX ? server->shares.by_number[number].left : NULL;
}

struct share *share_get(struct session *session)
{
    if (!session->shared) {
        session->shared = calloc(1, sizeof(*session->shared));
        if (session->shared)
            *session->shared = (struct share){
                .server = session->server, .session = session, .number = session->share};
    }
    return session->shared;
}

static void forget_maps(struct share *share)
{
    struct segment_map *map, *tmp;

    HASH_ITER (hh, share->maps, map, tmp)
        segment_unmap(map);
}

/* The share is the survivor's from here on. Before the pool is left, which looks whether anything in it is anybody's. */
static void leave_to(struct survivor *survivor, struct share *share)
{
    survivor->share = share;
    share->server->shares.by_number[share->number].left = share;
    segments_left(share);
    share->session = NULL;
}

void share_free(struct session *session)
{
    struct share *share = session->shared;
    struct share_number *number = &session->server->shares.by_number[session->share];
    struct survivor *survivor = share && share->maps ? survivor_of(session) : NULL;

    if (share) {
        queue_sweep(share);
        if (!survivor)
            share_sweep(share);
        queues_leave(share);
        router_session_gone(share);
        number->session = NULL;
        session->shared = NULL;
        if (survivor)
            leave_to(survivor, share);
        else
            forget_maps(share);
        pool_leave(share);
        if (!survivor)
            free(share);
    }
    if (session->share != SHARE_NPUD)
        number->session = NULL;
    session->share = SHARE_NPUD;
}

void share_free_left(struct share *share)
{
    share_sweep(share);
    forget_maps(share);
    share->server->shares.by_number[share->number].left = NULL;
    free(share);
}
