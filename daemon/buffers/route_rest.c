#include "daemon/buffers/route_rest.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/buffers/pool.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"
#include "daemon/core/server.h"

#define MESSAGES_AT_ONCE 16 /* each is up to MBUF_CHAIN_MAX buffers */

/* False: there are more. */
static bool drop_some(struct router *router, struct backlog *backlog)
{
    for (unsigned n = 0; n < MESSAGES_AT_ONCE && backlog->n > 0; n++) {
        struct message *m = backlog_first(backlog);

        backlog_pop(backlog);
        message_done(router, m);
    }
    return backlog->n == 0;
}

static void rest_free(struct route_rest *rest)
{
    struct router *router = rest->router;

    job_cancel(&rest->job);
    DL_DELETE(router->rests, rest);
    user_unref(rest->user);
    free(rest);
    relay_unstarve_all(router); /* the backlog has given its memory back */
    /* The messages kept what ended sessions have left, also when npud looked at it. */
    pools_look_at_orphans(router->server->pools);
}

static bool run_rest(struct job *job)
{
    struct route_rest *rest = (struct route_rest *)((char *)job - offsetof(struct route_rest, job));

    while (!drop_some(rest->router, &rest->backlog))
        if (schedule_step_over(&rest->router->server->schedule))
            return true;
    rest_free(rest);
    return false;
}

/* Without memory it is done at once. */
static void drop_at_once(struct route *route)
{
    while (!drop_some(route->router, &route->backlog))
        ;
    relay_unstarve_all(route->router);
}

void route_rest_begin(struct route *route)
{
    struct router *router = route->router;
    struct route_rest *rest;

    route_stop_waiting(route);
    /* A destination may go with thousands of routes. */
    if (!schedule_step_over(&router->server->schedule) && drop_some(router, &route->backlog)) {
        relay_unstarve_all(router);
        return;
    }
    rest = calloc(1, sizeof(*rest));
    if (!rest) {
        drop_at_once(route);
        return;
    }
    *rest = (struct route_rest){
        .router = router, .user = user_hold(route->user), .backlog = route->backlog};
    rest->job =
        (struct job){run_rest, "messages of a route", &route->user->payer->schedule.leftovers};
    route->backlog = (struct backlog){0};
    DL_APPEND(router->rests, rest);
    job_list(&rest->job);
}

void route_rests_deinit(struct router *router)
{
    struct route_rest *rest, *next;

    DL_FOREACH_SAFE (router->rests, rest, next) {
        while (!drop_some(router, &rest->backlog))
            ;
        rest_free(rest);
    }
}
