#include "daemon/buffers/route_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/array.h"
#include "daemon/buffers/route.h"

struct key {
    uint32_t first, second;
    uint64_t number;
};

static struct key key_of(const struct route *route, bool by_destination)
{
    const struct route_name *name = &route->named->name;

    return by_destination ? (struct key){name->destination, name->source, route->number}
                          : (struct key){name->source, name->destination, route->number};
}

static int compare_keys(const struct key *a, const struct key *b)
{
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_by_source(const void *item, const void *key)
{
    struct key k = key_of(*(struct route *const *)item, false);

    return compare_keys(&k, key);
}

static int compare_by_destination(const void *item, const void *key)
{
    struct key k = key_of(*(struct route *const *)item, true);

    return compare_keys(&k, key);
}

static size_t find_key(const struct route_list *list, const struct key *key)
{
    return array_lower_bound(list->route, list->n, sizeof(struct route *), key,
                             list->by_destination ? compare_by_destination : compare_by_source);
}

size_t route_list_find(const struct route_list *list, uint32_t first, uint32_t second,
                       uint64_t number)
{
    return find_key(list, &(struct key){first, second, number});
}

/* Room for one more. */
static bool reserve_room(struct route_list *list, size_t n)
{
    struct route **grown = array_grow(list->route, &list->size, n, sizeof(struct route *));

    if (grown)
        list->route = grown;
    return grown != NULL;
}

static void insert_route(struct route_list *list, struct route *route)
{
    struct key key = key_of(route, list->by_destination);
    size_t at = find_key(list, &key);

    assert(list->n < list->size);
    memmove(&list->route[at + 1], &list->route[at], (list->n - at) * sizeof(struct route *));
    list->route[at] = route;
    list->n++;
}

static void delete_route(struct route_list *list, const struct route *route)
{
    struct key key = key_of(route, list->by_destination);
    size_t at = find_key(list, &key);

    assert(at < list->n && list->route[at] == route);
    list->n--;
    memmove(&list->route[at], &list->route[at + 1], (list->n - at) * sizeof(struct route *));
}

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
    HASH_ADD(hh, router->by_user, uid, sizeof(index->uid), index);
    if (index->hh.tbl)
        return index;
    free(index);
    return NULL;
}

static void free_if_empty(struct router *router, struct route_index *index)
{
    if (index->by_source.n > 0)
        return;
    assert(index->by_destination.n == 0 && index->abnormal.n == 0);
    HASH_DEL(router->by_user, index);
    free(index->by_source.route);
    free(index->by_destination.route);
    free(index->abnormal.route);
    free(index);
}

bool route_index_add(struct router *router, struct route *route)
{
    struct route_index *index = make_index(router, route->named->name.uid);
    size_t n = index ? index->by_source.n + 1 : 0;

    if (!index)
        return false;
    /* All may become abnormal, and then there must be room. */
    if (!reserve_room(&index->by_source, n) || !reserve_room(&index->by_destination, n) ||
        !reserve_room(&index->abnormal, n)) {
        free_if_empty(router, index);
        return false;
    }
    insert_route(&index->by_source, route);
    insert_route(&index->by_destination, route);
    return true;
}

void route_index_remove(struct router *router, struct route *route)
{
    struct route_index *index = route_index_of(router, route->named->name.uid);

    if (route->state == ROUTE_ABNORMAL)
        delete_route(&index->abnormal, route);
    delete_route(&index->by_source, route);
    delete_route(&index->by_destination, route);
    free_if_empty(router, index);
}

void route_index_set_abnormal(struct router *router, struct route *route, bool abnormal)
{
    struct route_index *index = route_index_of(router, route->named->name.uid);

    if (abnormal)
        insert_route(&index->abnormal, route);
    else
        delete_route(&index->abnormal, route);
}
