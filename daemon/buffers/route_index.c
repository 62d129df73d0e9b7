#include "daemon/buffers/route_index.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/buffers/route.h"
#include "proto/util/random.h"

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

static struct key key_in(const struct route_list *list, const struct route *route)
{
    return key_of(route, list->by_destination);
}

/* --- the tree: a treap, in which each route is above those with a lower priority --- */

static struct route **left_of(const struct route_list *list, struct route *route)
{
    return &route->node[list->nodes].left;
}

static struct route **right_of(const struct route_list *list, struct route *route)
{
    return &route->node[list->nodes].right;
}

/* By a key that no client knows: so none can make it deep. The bits are those of splitmix64. */
static uint64_t priority_of(const struct route_list *list, const struct route *route)
{
    uint64_t x = route->number * UINT64_C(0x9e3779b97f4a7c15) ^ list->key;

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool is_before(const struct route_list *list, const struct route *route,
                      const struct key *key)
{
    struct key own = key_in(list, route);

    return compare_keys(&own, key) < 0;
}

/* What is before the key goes to *before, the rest to *rest. */
static void split(const struct route_list *list, struct route *root, const struct key *key,
                  struct route **before, struct route **rest)
{
    while (root) {
        if (is_before(list, root, key)) {
            *before = root;
            before = right_of(list, root);
            root = *before;
        } else {
            *rest = root;
            rest = left_of(list, root);
            root = *rest;
        }
    }
    *before = *rest = NULL;
}

/* All of a is before all of b. */
static struct route *merge(const struct route_list *list, struct route *a, struct route *b)
{
    struct route *root = NULL, **link = &root;

    while (a && b) {
        if (priority_of(list, a) > priority_of(list, b)) {
            *link = a;
            link = right_of(list, a);
            a = *link;
        } else {
            *link = b;
            link = left_of(list, b);
            b = *link;
        }
    }
    *link = a ? a : b;
    return root;
}

static void insert_route(struct route_list *list, struct route *route)
{
    struct key key = key_in(list, route);
    uint64_t priority = priority_of(list, route);
    struct route **link = &list->root;

    while (*link && priority_of(list, *link) >= priority)
        link = is_before(list, *link, &key) ? right_of(list, *link) : left_of(list, *link);
    split(list, *link, &key, left_of(list, route), right_of(list, route));
    *link = route;
    list->n++;
}

static void delete_route(struct route_list *list, struct route *route)
{
    struct key key = key_in(list, route);
    struct route **link = &list->root;

    while (*link != route) {
        assert(*link);
        link = is_before(list, *link, &key) ? right_of(list, *link) : left_of(list, *link);
    }
    *link = merge(list, *left_of(list, route), *right_of(list, route));
    list->n--;
}

static struct route *find_key(const struct route_list *list, const struct key *key)
{
    struct route *route = list->root, *found = NULL;

    while (route) {
        if (is_before(list, route, key)) {
            route = *right_of(list, route);
        } else {
            found = route;
            route = *left_of(list, route);
        }
    }
    return found;
}

struct route *route_list_find(const struct route_list *list, uint32_t first, uint32_t second,
                              uint64_t number)
{
    return find_key(list, &(struct key){first, second, number});
}

struct route *route_list_next(const struct route_list *list, const struct route *route)
{
    struct key key = key_in(list, route);

    key.number++;
    return find_key(list, &key);
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
    /* Without random numbers it may be deep, and is right all the same. */
    if (random_fill(&index->by_source.key, sizeof(index->by_source.key)))
        index->by_destination.key = index->abnormal.key = index->by_source.key;
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
    free(index);
}

bool route_index_add(struct router *router, struct route *route)
{
    struct route_index *index = make_index(router, route->named->name.uid);

    if (!index)
        return false;
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
