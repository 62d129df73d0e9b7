/*
 * Routes between queues: npud binds them, and moves the messages. The objects that describe them
 * are in queue_object.c.
 */
#include "client/core/error.h"
#include "client/buffers/queue_object.h"
#include "client/runtime/session.h"
#include "proto/wire/packet.h"

/* --- bind, unbind --- */

/*
 * Up to ROUTES_MAX of a list. *refused: the first that did not come out as wanted has been told;
 * further ones have nothing to add.
 */
static int change_part(struct session *s, const char *function, struct acltdtQueueRoute *list,
                       size_t n, bool binds, bool *refused)
{
    Npud__Route route[ROUTES_MAX], *routes[ROUTES_MAX];
    REQUEST(bind_routes, BIND_ROUTES, .routes = routes, .n_routes = n);
    Npud__UnbindRoutes unbind = NPUD__UNBIND_ROUTES__INIT;
    int32_t wanted = binds ? ACL_TDT_QUEUE_ROUTE_BIND : ACL_TDT_QUEUE_ROUTE_UNBIND;
    Npud__Reply *reply = NULL;

    for (size_t i = 0; i < n; i++) {
        routes[i] = &route[i];
        route[i] = (Npud__Route)NPUD__ROUTE__INIT;
        route[i].source = list[i].src;
        route[i].destination = list[i].dst;
    }
    if (!binds) {
        unbind.routes = routes;
        unbind.n_routes = n;
        request.unbind_routes = &unbind;
        request.body_case = NPUD__REQUEST__BODY_UNBIND_ROUTES;
    }
    RETURN_IF_ERROR(session_request(s, function, &request, &reply, NULL));
    for (size_t i = 0; i < n; i++) {
        list[i].status = reply->routes->routes[i]->status;
        if (list[i].status == wanted || *refused)
            continue;
        *refused = true;
        error_store(ACL_ERROR_FAILURE, "%s: %s", function, reply->message);
    }
    session_reply_free(reply);
    return 0;
}

static int change_routes(const char *function, struct acltdtQueueRouteList *list, bool binds)
{
    bool refused = false;
    struct session *s;

    RETURN_IF_ERROR(process_enter());
    if (list->n == 0)
        return 0;
    s = FIND_OR_RETURN(session_get, function);
    for (size_t i = 0; i < list->n; i += ROUTES_MAX) {
        size_t n = list->n - i < ROUTES_MAX ? list->n - i : ROUTES_MAX;

        RETURN_IF_ERROR(change_part(s, function, list->routes + i, n, binds, &refused));
    }
    return refused ? ACL_ERROR_FAILURE : 0;
}

aclError acltdtBindQueueRoutes(acltdtQueueRouteList *qRouteList)
{
    CALL_SCOPE;

    REQUIRE(qRouteList);
    return change_routes(__func__, qRouteList, true);
}

aclError acltdtUnbindQueueRoutes(acltdtQueueRouteList *qRouteList)
{
    CALL_SCOPE;

    REQUIRE(qRouteList);
    return change_routes(__func__, qRouteList, false);
}

/* --- query --- */

/* What must be configured for each mode. */
static const struct {
    acltdtQueueRouteQueryMode mode;
    bool source, destination;
} modes[] = {
    {ACL_TDT_QUEUE_ROUTE_QUERY_SRC, true, false},
    {ACL_TDT_QUEUE_ROUTE_QUERY_DST, false, true},
    {ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST, true, true},
    {ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL, false, false},
};

static bool has_param(const acltdtQueueRouteQueryInfo *info,
                      acltdtQueueRouteQueryInfoParamType type)
{
    return info->configured & ROUTE_QUERY_HAS(type);
}

static int check_query(const char *function, const acltdtQueueRouteQueryInfo *info)
{
    size_t i = 0, n = sizeof(modes) / sizeof(modes[0]);

    if (!has_param(info, ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the query has no mode", function);
    while (i < n && modes[i].mode != info->mode)
        i++;
    if (i == n)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: mode is %u, must be 0 (of a source), 1 (into a destination), 2 "
                         "(both) or 100 (abnormal)",
                         function, info->mode);
    if (modes[i].source && !has_param(info, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: mode %u needs the id of a source", function,
                         info->mode);
    if (modes[i].destination && !has_param(info, ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: mode %u needs the id of a destination",
                         function, info->mode);
    return 0;
}

/* Append what an answer has. *after: its last pair. */
static int take_part(const char *function, struct acltdtQueueRouteList *list,
                     const Npud__RoutesReply *reply, Npud__Route *after)
{
    int error = 0;

    for (size_t i = 0; error == 0 && i < reply->n_routes; i++) {
        const Npud__Route *r = reply->routes[i];
        struct acltdtQueueRoute route = {
            .src = r->source, .dst = r->destination, .status = r->status};

        after->source = r->source;
        after->destination = r->destination;
        error = queue_object_add_route(list, &route, function);
    }
    return error;
}

static int query_routes(struct session *s, const char *function,
                        const acltdtQueueRouteQueryInfo *info, struct acltdtQueueRouteList *list)
{
    REQUEST(query_routes, QUERY_ROUTES, .mode = info->mode, .source = info->src,
            .destination = info->dst);
    Npud__Route after = NPUD__ROUTE__INIT;
    bool more = true;
    int error = 0;

    while (error == 0 && more) {
        Npud__Reply *reply = NULL;

        RETURN_IF_ERROR(session_request(s, function, &request, &reply, NULL));
        error = take_part(function, list, reply->routes, &after);
        more = reply->routes->more;
        in.after = &after;
        session_reply_free(reply);
    }
    return error;
}

aclError acltdtQueryQueueRoutes(const acltdtQueueRouteQueryInfo *queryInfo,
                                acltdtQueueRouteList *qRouteList)
{
    CALL_SCOPE;

    REQUIRE(queryInfo);
    REQUIRE(qRouteList);
    qRouteList->n = 0;
    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(check_query(__func__, queryInfo));
    return query_routes(FIND_OR_RETURN(session_get, __func__), __func__, queryInfo, qRouteList);
}
