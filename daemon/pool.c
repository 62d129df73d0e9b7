#include "daemon/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/segment.h"
#include "daemon/server.h"
#include "daemon/session.h"

int pools_init(struct pools *pools)
{
    /* As shares_init(): only the pages with segments in them are ever touched. */
    pools->table = calloc(1, sizeof(*pools->table));
    return pools->table ? 0 : -ENOMEM;
}

static void pool_free(struct pool *pool)
{
    struct server *server = pool->server;

    for (struct segment *s = pool->segments, *next; s; s = next) {
        next = s->next;
        segment_free(s);
    }
    if (pool->on_look)
        event_free(pool->on_look);
    DL_DELETE(server->pools.list, pool);
    user_unref(&server->users, pool->user);
    free(pool);
}

void pools_deinit(struct pools *pools)
{
    while (pools->list)
        pool_free(pools->list);
    free(pools->table);
    *pools = (struct pools){0};
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ((struct pool *)arg)->looks = false;
}

struct pool *pool_get(struct session *session)
{
    struct share *share = share_get(session);
    struct server *server = session->server;
    struct pool *pool;

    if (!share || share->pool)
        return share ? share->pool : NULL;
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    pool->on_look = event_new(server->base, -1, 0, on_look, pool);
    pool->user = user_ref(&server->users, session->uid);
    if (!pool->on_look || !pool->user) {
        if (pool->on_look)
            event_free(pool->on_look);
        user_unref(&server->users, pool->user);
        free(pool);
        return NULL;
    }
    pool->server = server;
    pool->session = session;
    pool->session_id = session->id;
    pool->pid = session->pid;
    DL_APPEND(server->pools.list, pool);
    return share->pool = pool;
}

void pool_look_soon(struct pool *pool)
{
    (void)pool;
}

void pool_leave(struct share *share)
{
    if (share->pool)
        pool_free(share->pool);
    share->pool = NULL;
}
