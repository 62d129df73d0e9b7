#include "client/callback/callback_table.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"

struct callback_node {
    struct callback_node *next;
    struct callback_entry entry;
    char name[];
};

/* Where it is in the list; *found false: where it is to be added. */
static struct callback_node **find_place(struct callback_table *t, const char *name,
                                         callback_table_fn *fn, bool *found)
{
    struct callback_node **at = &t->first;

    *found = false;
    for (; *at; at = &(*at)->next) {
        int order =
            t->key == CALLBACK_BY_FUNCTION ? (*at)->entry.fn != fn : strcmp((*at)->name, name);

        *found = order == 0;
        if (*found || (t->key == CALLBACK_SORTED && order > 0))
            break;
    }
    return at;
}

int callback_table_add(struct callback_table *t, const char *function, const char *name,
                       callback_table_fn *fn, void *args)
{
    size_t size = strlen(name) + 1;
    bool found;
    struct callback_node **at = find_place(t, name, fn, &found), *node;

    if (found)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: \"%s\" is registered: remove it first",
                         function, name);
    node = malloc(sizeof(*node) + size);
    if (!node)
        return error_no_memory(function);
    node->next = *at;
    node->entry = (struct callback_entry){fn, args, ++t->last_serial};
    memcpy(node->name, name, size);
    *at = node;
    atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
    return 0;
}

bool callback_table_remove(struct callback_table *t, const char *name, callback_table_fn *fn)
{
    bool found;
    struct callback_node **at = find_place(t, name, fn, &found), *node = *at;

    if (!found)
        return false;
    *at = node->next;
    free(node);
    atomic_fetch_sub_explicit(&t->n, 1, memory_order_relaxed);
    return true;
}

bool callback_table_has(struct callback_table *t, const char *name, callback_table_fn *fn)
{
    bool found;

    find_place(t, name, fn, &found);
    return found;
}

struct callback_entry *callback_table_copy(const struct callback_table *t, size_t *n)
{
    struct callback_entry *copy = malloc((t->n + 1) * sizeof(*copy));

    *n = 0;
    for (const struct callback_node *node = t->first; copy && node; node = node->next)
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

uint64_t callback_table_last(struct callback_table *t)
{
    uint64_t last;

    /* Fast path: mostly there is none, and then the lock is not taken. */
    if (atomic_load_explicit(&t->n, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&t->lock);
    last = t->last_serial;
    pthread_mutex_unlock(&t->lock);
    return last;
}

bool callback_table_next(struct callback_table *t, uint64_t *serial, uint64_t last,
                         struct callback_entry *next)
{
    const struct callback_node *node;

    if (last == 0)
        return false;
    pthread_mutex_lock(&t->lock);
    node = t->first;
    while (node && node->entry.serial <= *serial)
        node = node->next;
    if (node && node->entry.serial <= last) {
        *serial = node->entry.serial;
        *next = node->entry;
    } else {
        node = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return node != NULL;
}

void callback_table_forget(struct callback_table *t)
{
    pthread_mutex_init(&t->lock, NULL);
    t->first = NULL;
    t->last_serial = 0;
    atomic_store_explicit(&t->n, 0, memory_order_relaxed);
}
