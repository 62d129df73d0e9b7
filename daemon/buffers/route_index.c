#include "daemon/buffers/route_index.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/buffers/route.h"

static int compare_nodes(const struct route_node *a, const struct route_node *b)
{
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

RB_GENERATE_INTERNAL(route_tree, route_node, tree, compare_nodes, __attribute__((unused)) static)

static void insert_route(struct route_list *list, struct route *route)
{
    const struct route_name *name = &route->name;
    struct route_node *node = &route->node[list->nodes];

    node->first = list->by_destination ? name->destination : name->source;
    node->second = list->by_destination ? name->source : name->destination;
    node->number = route->number;
    RB_INSERT(route_tree, &list->tree, node);
}

static void delete_route(struct route_list *list, struct route *route)
{
    RB_REMOVE(route_tree, &list->tree, &route->node[list->nodes]);
}

static struct route *route_of(const struct route_list *list, struct route_node *node)
{
    return node ? (void *)((char *)(node - list->nodes) - offsetof(struct route, node)) : NULL;
}

struct route *route_list_find(struct route_list *list, uint32_t first, uint32_t second,
                              uint64_t number)
{
    struct route_node key = {.first = first, .second = second, .number = number};

    return route_of(list, RB_NFIND(route_tree, &list->tree, &key));
}

struct route *route_list_next(struct route_list *list, struct route *route)
{
    return route_of(list, RB_NEXT(route_tree, &list->tree, &route->node[list->nodes]));
}

/* --- users --- */

struct route_index *route_index_of(const struct router *router, uid_t uid)
{
    struct route_index *index;

    HASH_FIND(hh, router->by_user, &uid, sizeof(uid), index);
    return index;
}

static struct route_index *make_index(struct router *router, uid_t uid)
{
    struct route_index *index = route_index_of(router, uid);

    if (index)
        return index;
    index = calloc(1, sizeof(*index));
    if (!index)
        return NULL;
    index->uid = uid;
    index->by_destination.by_destination = true;
    index->by_destination.nodes = 1;
    index->abnormal.nodes = 2;
    HASH_ADD(hh, router->by_user, uid, sizeof(index->uid), index);
    if (index->hh.tbl)
        return index;
    free(index);
    return NULL;
}

static void free_if_empty(struct router *router, struct route_index *index)
{
    if (!RB_EMPTY(&index->by_source.tree))
        return;
    assert(RB_EMPTY(&index->by_destination.tree) && RB_EMPTY(&index->abnormal.tree));
    HASH_DEL(router->by_user, index);
    free(index);
}

bool route_index_add(struct router *router, struct route *route)
{
    struct route_index *index = make_index(router, route->name.uid);

    if (!index)
        return false;
    insert_route(&index->by_source, route);
    insert_route(&index->by_destination, route);
    return true;
}

void route_index_remove(struct router *router, struct route *route)
{
    struct route_index *index = route_index_of(router, route->name.uid);

    if (route->state == ROUTE_ABNORMAL)
        delete_route(&index->abnormal, route);
    delete_route(&index->by_source, route);
    delete_route(&index->by_destination, route);
    free_if_empty(router, index);
}

void route_index_set_abnormal(struct router *router, struct route *route, bool abnormal)
{
    struct route_index *index = route_index_of(router, route->name.uid);

    if (abnormal)
        insert_route(&index->abnormal, route);
    else
        delete_route(&index->abnormal, route);
}

/* --- names --- */

static struct route *if_named(struct route *route, const struct route_name *name)
{
    return route && route->name.source == name->source &&
                   route->name.destination == name->destination
               ? route
               : NULL;
}

struct route *route_index_find(const struct router *router, const struct route_name *name)
{
    struct route_index *index = route_index_of(router, name->uid);

    return index ? if_named(route_list_find(&index->by_source, name->source, name->destination, 0),
                            name)
                 : NULL;
}

struct route *route_index_next(struct route *route)
{
    struct route_index *index = route_index_of(route->router, route->name.uid);

    return if_named(route_list_next(&index->by_source, route), &route->name);
}
