#include "daemon/share.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/pool.h"
#include "daemon/queue.h"
#include "daemon/router.h"
#include "daemon/segment.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/sweep.h"
#include "proto/mbuf_shm.h"

int shares_init(struct shares *shares)
{
    /* Half a megabyte of which only the pages with sessions in them are ever touched. */
    shares->by_number = calloc(SHARE_MAX + 1, sizeof(struct session *));
    return shares->by_number ? 0 : -ENOMEM;
}

void shares_deinit(struct shares *shares)
{
    free(shares->by_number);
    *shares = (struct shares){0};
}

/* Numbers are used again as late as possible, but while sessions are few from 1 again after 1023: two pages of pointers serve most hosts. */
bool share_name(struct session *session)
{
    struct shares *shares = &session->server->shares;
    uint32_t range = session->server->n_sessions < 512 ? 1023 : SHARE_MAX;

    for (uint32_t i = 0; i < range; i++) {
        shares->last = shares->last % range + 1;
        if (shares->by_number[shares->last])
            continue;
        shares->by_number[shares->last] = session;
        session->share = shares->last;
        return true;
    }
    return false;
}

struct session *share_session(struct server *server, uint32_t number)
{
    return number <= SHARE_MAX ? server->shares.by_number[number] : NULL;
}

struct share *share_get(struct session *session)
{
    if (!session->shared) {
        session->shared = calloc(1, sizeof(*session->shared));
        if (session->shared)
            session->shared->session = session;
    }
    return session->shared;
}

static void forget_maps(struct share *share)
{
    struct segment_map *map, *tmp;

    HASH_ITER (hh, share->maps, map, tmp)
        segment_unmap(map);
}

void share_free(struct session *session)
{
    struct share *share = session->shared;

    if (share) {
        queue_sweep(share);
        share_sweep(share);
        queues_leave(share);
        router_session_gone(share);
        forget_maps(share);
        pool_leave(share);
        free(share);
        session->shared = NULL;
    }
    if (session->share != SHARE_NPUD)
        session->server->shares.by_number[session->share] = NULL;
    session->share = SHARE_NPUD;
}
