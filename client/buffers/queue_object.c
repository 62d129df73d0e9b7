#include "client/buffers/queue_object.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/process.h"

#define ROOM_FIRST 16

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* All that is set in or read from routes and queries is that large; a mode too. */
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

/* what: attribute or parameter number `type` of `whose`, which have n of them. */
static int check_type(const char *function, const char *what, const char *whose, int type, size_t n)
{
    if ((size_t)(unsigned)type < n)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: %s %d: %s have those from 0 to %zu", function,
                     what, type, whose, n - 1);
}

/* To the program, which has room for len bytes. */
static int copy_out(const char *function, const char *what, int type, const void *value,
                    size_t size, size_t len, size_t *ret_size, void *param)
{
    if (len < size)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, %s %d needs room for %zu",
                         function, len, what, type, size);
    memcpy(param, value, size);
    *ret_size = size;
    return 0;
}

/* --- attributes of queues --- */

#define QUEUE_ATTRS (ACL_TDT_QUEUE_DEPTH_UINT32 + 1)

/* Of what an attribute is passed in: by pointer to a pointer, or by pointer to a number. */
static size_t size_of_attr(acltdtQueueAttrType type)
{
    return type == ACL_TDT_QUEUE_NAME_PTR ? sizeof(const char *) : sizeof(uint32_t);
}

acltdtQueueAttr *acltdtCreateQueueAttr(void)
{
    CALL_SCOPE;
    acltdtQueueAttr *attr = create_object(__func__, sizeof(*attr));

    if (attr)
        attr->depth = QUEUE_DEPTH_DEFAULT;
    return attr;
}

aclError acltdtDestroyQueueAttr(const acltdtQueueAttr *attr)
{
    CALL_SCOPE;

    REQUIRE(attr);
    destroy_object(attr);
    return 0;
}

static int set_name(acltdtQueueAttr *attr, const char *function, const char *name)
{
    size_t length;

    if (!name)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: param points to NULL: it must point to a pointer to the name",
                         function);
    length = strnlen(name, QUEUE_NAME);
    if (length == QUEUE_NAME)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the name has more than %u characters",
                         function, QUEUE_NAME - 1);
    /* It may be what acltdtGetQueueAttr lent, or the end of that. */
    memmove(attr->name, name, length);
    attr->name[length] = '\0';
    return 0;
}

aclError acltdtSetQueueAttr(acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len,
                            const void *param)
{
    CALL_SCOPE;
    const char *name;

    REQUIRE(attr);
    REQUIRE(param);
    RETURN_IF_ERROR(check_type(__func__, "attribute", "queues", type, QUEUE_ATTRS));
    if (len != size_of_attr(type))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, attribute %d is set with %zu%s",
                         __func__, len, (int)type, size_of_attr(type),
                         type == ACL_TDT_QUEUE_NAME_PTR ? ", the size of a pointer to the name"
                                                        : "");
    if (type == ACL_TDT_QUEUE_DEPTH_UINT32) {
        memcpy(&attr->depth, param, sizeof(attr->depth));
        return 0;
    }
    memcpy(&name, param, sizeof(name));
    return set_name(attr, __func__, name);
}

aclError acltdtGetQueueAttr(const acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len,
                            size_t *paramRetSize, void *param)
{
    CALL_SCOPE;
    const char *name;

    REQUIRE(attr);
    REQUIRE(paramRetSize);
    REQUIRE(param);
    RETURN_IF_ERROR(check_type(__func__, "attribute", "queues", type, QUEUE_ATTRS));
    name = attr->name;
    return copy_out(__func__, "attribute", type,
                    type == ACL_TDT_QUEUE_NAME_PTR ? (const void *)&name : &attr->depth,
                    size_of_attr(type), len, paramRetSize, param);
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
    RETURN_IF_ERROR(check_type(__func__, "parameter", "routes", type, COUNT(offsets)));
    return copy_out(__func__, "parameter", type, (const char *)route + offsets[type], PARAM_SIZE,
                    len, paramRetSize, param);
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

int queue_object_add_route(struct acltdtQueueRouteList *list, const struct acltdtQueueRoute *route,
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
    return queue_object_add_route(routeList, route, __func__);
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
    RETURN_IF_ERROR(check_type(__func__, "parameter", "queries", type, COUNT(offsets)));
    if (len != PARAM_SIZE)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, a parameter has %zu bytes",
                         __func__, len, PARAM_SIZE);
    memcpy((char *)param + offsets[type], value, PARAM_SIZE);
    param->configured |= ROUTE_QUERY_HAS(type);
    return 0;
}
