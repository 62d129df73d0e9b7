/* Reports on shared buffers: queues, the rights to them, routes, pools. */
#include "daemon/admin/report_topics.h"

#include <utlist.h>

#include "daemon/buffers/grant.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

/* Threads that sleep on the ring. A client's word, like all that is there. */
static uint32_t queue_sleepers(const struct queue_view *v)
{
    return (queue_waiting(&v->take->waiting) & ~QUEUE_ROUTER) +
           (queue_waiting(&v->put->waiting) & ~QUEUE_ROUTER);
}

void report_queues(struct server *server, struct rows *rows)
{
    struct queue_attach *attach;
    struct queue *queue;

    for (queue = queue_from(server, rows->progress->session); queue; queue = queue->next) {
        rows->progress->session = queue->serial;
        if (report_rows_slice_over(rows))
            return;
        ADD_ROW(rows, Npud__QueueRow, NPUD__QUEUE_ROW__INIT, r);

        r->queue = queue->id;
        r->uid = queue->user->uid;
        r->pid = queue->creator ? queue->creator->pid : 0;
        r->name = report_rows_copy_text(rows, queue->name);
        r->depth = queue->ring.view.depth;
        r->fill = queue_fill(&queue->ring.view);
        DL_FOREACH2 (queue->attached, attach, qnext)
            r->attached++;
        r->waiting = queue_sleepers(&queue->ring.view);
        r->messages = queue_messages(queue);
        r->number = queue->serial;
        r->ring = queue->ring.view.number;
        r->routes_from = queue->routes_from;
        r->routes_to = queue->routes_to;
    }
}

static const char *route_state(const struct route *route)
{
    switch (route->state) {
    case ROUTE_BOUND:
        return backlog_full(&route->backlog) ? "stalled"
               : route->backlog.n > 0        ? "waiting"
                                             : "bound";
    case ROUTE_ABNORMAL:
        return "abnormal";
    default:
        return "ending";
    }
}

void report_routes(struct server *server, struct rows *rows)
{
    const struct route *route;

    DL_FOREACH (server->router->all, route) {
        if (route->number < rows->progress->session)
            continue;
        rows->progress->session = route->number;
        if (report_rows_slice_over(rows))
            return;
        ADD_ROW(rows, Npud__RouteRow, NPUD__ROUTE_ROW__INIT, r);

        r->uid = route->name.uid;
        r->source = route->name.source;
        r->destination = route->name.destination;
        r->pid = route->binder ? route->binder->session->pid : 0;
        r->state = (char *)route_state(route);
        r->backlog = route->backlog.n;
        r->backlog_bytes = route->backlog.kib << 10;
        r->messages = atomic_load_explicit(&route->live->messages, memory_order_relaxed);
        r->number = route->number;
    }
}

static void report_grant(struct rows *rows, const struct queue *queue, pid_t pid, uint32_t rights,
                         const struct session *session)
{
    static const char *const words[] = {
        "",        "manage",         "dequeue",         "manage dequeue",
        "enqueue", "manage enqueue", "dequeue enqueue", "manage dequeue enqueue",
    };
    ADD_ROW(rows, Npud__GrantRow, NPUD__GRANT_ROW__INIT, r);

    r->queue = queue->id;
    r->uid = queue->user->uid;
    r->pid = pid;
    r->rights = (char *)words[rights & QUEUE_RIGHTS];
    r->attached = session != NULL;
    r->session = session ? session->id : 0;
    r->number = queue->serial;
    r->rights_bits = rights;
}

void report_grants(struct server *server, struct rows *rows)
{
    struct queue_attach *attach;
    struct grant *grant;
    struct queue *queue;

    for (queue = queue_from(server, rows->progress->session); queue; queue = queue->next) {
        rows->progress->session = queue->serial;
        if (report_rows_slice_over(rows))
            return;
        DL_FOREACH2 (queue->attached, attach, qnext)
            report_grant(rows, queue, attach->peer->session->pid, attach->rights,
                         attach->peer->session);
        DL_FOREACH (queue->grants, grant)
            report_grant(rows, queue, grant->pid, grant->rights, NULL);
    }
}

static void report_pool(struct rows *rows, const struct pool *pool)
{
    const struct pool_census census = rows->progress->count.census;
    ADD_ROW(rows, Npud__PoolRow, NPUD__POOL_ROW__INIT, r);

    r->session = pool->session_id;
    r->pid = pool->pid;
    r->uid = pool->user->uid;
    r->state = (char *)(!pool->session ? "orphan" : census.draining ? "draining" : "live");
    r->segments = pool->n_segments;
    r->bytes = census.bytes;
    r->others = census.others;
    r->free = census.slots[MBUF_FREE];
    r->cached = census.slots[MBUF_CACHED];
    r->held = census.slots[MBUF_HELD];
    r->sending = census.slots[MBUF_SENDING];
    r->member = census.slots[MBUF_MEMBER];
    r->shared = census.slots[MBUF_BLOCK];
}

/* Each may have millions of buffers: the time may be up in the middle of them. */
void report_pools(struct server *server, struct rows *rows)
{
    struct pool *pool;

    for (pool = pool_from(server->pools, rows->progress->session); pool; pool = pool->next) {
        rows->progress->session = pool->number;
        rows->more =
            clock_ns() >= rows->until || !pool_count(pool, &rows->progress->count, rows->until);
        if (rows->more)
            return;
        report_pool(rows, pool);
        rows->progress->session++;
    }
}
