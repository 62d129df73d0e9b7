#include "client/callback/callback_table.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"

struct callback_node {
    struct callback_node *prev, *next; /* table->list, in the order of registration */
    struct callback_entry entry;
    const char *name; /* behind it; or the caller's, of a node that is looked for */
};

/* --- the tree: tsearch(3), by the key of the table --- */

static int compare_names(const void *a, const void *b)
{
    const struct callback_node *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int compare_functions(const void *a, const void *b)
{
    const struct callback_node *x = a, *y = b;
    uintptr_t f = (uintptr_t)x->entry.fn, g = (uintptr_t)y->entry.fn;

    return (f > g) - (f < g);
}

static __compar_fn_t order_of(const struct callback_table *t)
{
    return t->key == CALLBACK_BY_FUNCTION ? compare_functions : compare_names;
}

static struct callback_node *find_node(const struct callback_table *t, const char *name,
                                       callback_table_fn *fn)
{
    struct callback_node key = {.entry.fn = fn, .name = name};
    struct callback_node **found = tfind(&key, &t->tree, order_of(t));

    return found ? *found : NULL;
}

/* --- */

int callback_table_add(struct callback_table *t, const char *function, const char *name,
                       callback_table_fn *fn, void *args)
{
    size_t size = strlen(name) + 1;
    struct callback_node *node;

    if (find_node(t, name, fn))
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: \"%s\" is registered: remove it first",
                         function, name);
    node = malloc(sizeof(*node) + size);
    if (!node)
        return error_no_memory(function);
    node->entry = (struct callback_entry){fn, args, t->last_serial + 1};
    node->name = memcpy(node + 1, name, size);
    if (!tsearch(node, &t->tree, order_of(t))) {
        free(node);
        return error_no_memory(function);
    }
    t->last_serial++;
    if (t->key == CALLBACK_SORTED)
        DL_INSERT_INORDER(t->list, node, compare_names);
    else
        DL_APPEND(t->list, node);
    atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
    return 0;
}

bool callback_table_remove(struct callback_table *t, const char *name, callback_table_fn *fn)
{
    struct callback_node *node = find_node(t, name, fn);

    if (!node)
        return false;
    tdelete(node, &t->tree, order_of(t));
    DL_DELETE(t->list, node);
    free(node);
    t->removals++;
    atomic_fetch_sub_explicit(&t->n, 1, memory_order_relaxed);
    return true;
}

bool callback_table_has(struct callback_table *t, const char *name, callback_table_fn *fn)
{
    return find_node(t, name, fn) != NULL;
}

struct callback_entry *callback_table_copy(const struct callback_table *t, size_t *n)
{
    struct callback_entry *copy = malloc((t->n + 1) * sizeof(*copy));

    *n = 0;
    for (const struct callback_node *node = t->list; copy && node; node = node->next)
        copy[(*n)++] = node->entry;
    return copy;
}

int callback_table_set(struct callback_table *t, const char *function, const char *name,
                       callback_table_fn *fn, void *args)
{
    int error = 0;

    pthread_mutex_lock(&t->lock);
    if (fn)
        error = callback_table_add(t, function, name, fn, args);
    else
        callback_table_remove(t, name, NULL);
    pthread_mutex_unlock(&t->lock);
    return error;
}

/* --- a walk --- */

struct callback_walk callback_walk_begin(struct callback_table *t)
{
    struct callback_walk walk = {.table = t};

    /* Fast path: mostly there is none, and then the lock is not taken. */
    if (atomic_load_explicit(&t->n, memory_order_relaxed) == 0)
        return walk;
    pthread_mutex_lock(&t->lock);
    walk.last = t->last_serial;
    pthread_mutex_unlock(&t->lock);
    return walk;
}

/* Under the lock. The first one behind that of the last step, or NULL. */
static const struct callback_node *find_following(const struct callback_walk *walk)
{
    const struct callback_node *node = walk->at;

    if (node && walk->removals == walk->table->removals)
        return node->next;
    /* The node of the last step may be gone. */
    node = walk->table->list;
    while (node && node->entry.serial <= walk->serial)
        node = node->next;
    return node;
}

bool callback_walk_next(struct callback_walk *walk, struct callback_entry *next)
{
    struct callback_table *t = walk->table;
    const struct callback_node *node;

    if (walk->last == 0)
        return false;
    pthread_mutex_lock(&t->lock);
    node = find_following(walk);
    if (node && node->entry.serial <= walk->last) {
        *next = node->entry;
        walk->at = node;
        walk->serial = node->entry.serial;
        walk->removals = t->removals;
    } else {
        node = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return node != NULL;
}

void callback_table_forget(struct callback_table *t)
{
    pthread_mutex_init(&t->lock, NULL);
    t->list = NULL;
    t->tree = NULL;
    t->removals++; /* for the walk in which it was forked */
    t->last_serial = 0;
    atomic_store_explicit(&t->n, 0, memory_order_relaxed);
}
