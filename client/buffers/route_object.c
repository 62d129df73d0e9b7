#include "client/buffers/route_object.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/process.h"

#define ROOM_FIRST 16

/* All that is set in or read from these objects is that large; a mode too. */
#define PARAM_SIZE sizeof(uint32_t)
_Static_assert(sizeof(acltdtQueueRouteQueryMode) == PARAM_SIZE, "the size of a mode");

/* New, and all zero. NULL: forked, or no memory. */
static void *create_object(const char *function, size_t size)
{
    void *object;

    if (process_enter() != 0)
        return NULL;
    object = calloc(1, size);
    if (!object)
        error_store(ACL_ERROR_BAD_ALLOC, "%s: out of memory", function);
    return object;
}

/* The interface has objects const that are destroyed; they are not. */
static void destroy_object(const void *object)
{
    free((void *)(uintptr_t)object);
}

/* --- routes --- */

acltdtQueueRoute *acltdtCreateQueueRoute(uint32_t srcId, uint32_t dstId)
{
    CALL_SCOPE;
    acltdtQueueRoute *route = create_object(__func__, sizeof(*route));

    if (route)
        *route =
            (acltdtQueueRoute){.src = srcId, .dst = dstId, .status = ACL_TDT_QUEUE_ROUTE_UNBIND};
    return route;
}

aclError acltdtDestroyQueueRoute(const acltdtQueueRoute *route)
{
    CALL_SCOPE;

    REQUIRE(route);
    destroy_object(route);
    return 0;
}

aclError acltdtGetQueueRouteParam(const acltdtQueueRoute *route, acltdtQueueRouteParamType type,
                                  size_t len, size_t *paramRetSize, void *param)
{
    CALL_SCOPE;
    static const size_t offsets[] = {
        [ACL_TDT_QUEUE_ROUTE_SRC_UINT32] = offsetof(acltdtQueueRoute, src),
        [ACL_TDT_QUEUE_ROUTE_DST_UINT32] = offsetof(acltdtQueueRoute, dst),
        [ACL_TDT_QUEUE_ROUTE_STATUS_INT32] = offsetof(acltdtQueueRoute, status),
    };

    REQUIRE(route);
    REQUIRE(paramRetSize);
    REQUIRE(param);
    if ((unsigned)type >= sizeof(offsets) / sizeof(offsets[0]))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: parameter %d: routes have those from 0 to %zu", __func__, (int)type,
                         sizeof(offsets) / sizeof(offsets[0]) - 1);
    if (len < PARAM_SIZE)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, a parameter needs room for %zu",
                         __func__, len, PARAM_SIZE);
    memcpy(param, (const char *)route + offsets[type], PARAM_SIZE);
    *paramRetSize = PARAM_SIZE;
    return 0;
}

/* --- lists --- */

acltdtQueueRouteList *acltdtCreateQueueRouteList(void)
{
    CALL_SCOPE;

    return create_object(__func__, sizeof(acltdtQueueRouteList));
}

aclError acltdtDestroyQueueRouteList(const acltdtQueueRouteList *routeList)
{
    CALL_SCOPE;

    REQUIRE(routeList);
    free(routeList->routes);
    destroy_object(routeList);
    return 0;
}

int route_object_add(struct acltdtQueueRouteList *list, const struct acltdtQueueRoute *route,
                     const char *function)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : ROOM_FIRST;
        struct acltdtQueueRoute *routes = reallocarray(list->routes, room, sizeof(*routes));

        if (!routes)
            return error_set(ACL_ERROR_BAD_ALLOC, "%s: out of memory for more than %zu routes",
                             function, list->n);
        list->routes = routes;
        list->room = room;
    }
    list->routes[list->n++] = *route;
    return 0;
}

aclError acltdtAddQueueRoute(acltdtQueueRouteList *routeList, const acltdtQueueRoute *route)
{
    CALL_SCOPE;

    REQUIRE(routeList);
    REQUIRE(route);
    return route_object_add(routeList, route, __func__);
}

aclError acltdtGetQueueRoute(const acltdtQueueRouteList *routeList, size_t index,
                             acltdtQueueRoute *route)
{
    CALL_SCOPE;

    REQUIRE(routeList);
    REQUIRE(route);
    if (index >= routeList->n)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: index is %zu, the list has %zu routes",
                         __func__, index, routeList->n);
    *route = routeList->routes[index];
    return 0;
}

size_t acltdtGetQueueRouteNum(const acltdtQueueRouteList *routeList)
{
    return routeList ? routeList->n : 0;
}

/* --- queries --- */

acltdtQueueRouteQueryInfo *acltdtCreateQueueRouteQueryInfo(void)
{
    CALL_SCOPE;

    return create_object(__func__, sizeof(acltdtQueueRouteQueryInfo));
}

aclError acltdtDestroyQueueRouteQueryInfo(const acltdtQueueRouteQueryInfo *info)
{
    CALL_SCOPE;

    REQUIRE(info);
    destroy_object(info);
    return 0;
}

aclError acltdtSetQueueRouteQueryInfo(acltdtQueueRouteQueryInfo *param,
                                      acltdtQueueRouteQueryInfoParamType type, size_t len,
                                      const void *value)
{
    CALL_SCOPE;
    static const size_t offsets[] = {
        [ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM] = offsetof(acltdtQueueRouteQueryInfo, mode),
        [ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32] = offsetof(acltdtQueueRouteQueryInfo, src),
        [ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32] = offsetof(acltdtQueueRouteQueryInfo, dst),
    };

    REQUIRE(param);
    REQUIRE(value);
    if ((unsigned)type >= sizeof(offsets) / sizeof(offsets[0]))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: parameter %d: queries have those from 0 to %zu", __func__, (int)type,
                         sizeof(offsets) / sizeof(offsets[0]) - 1);
    if (len != PARAM_SIZE)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, a parameter has %zu bytes",
                         __func__, len, PARAM_SIZE);
    memcpy((char *)param + offsets[type], value, PARAM_SIZE);
    param->configured |= ROUTE_QUERY_HAS(type);
    return 0;
}
