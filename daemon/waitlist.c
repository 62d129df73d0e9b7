#include "daemon/waitlist.h"

#include <assert.h>
#include <stddef.h>
#include <utlist.h>

void waitlist_init(struct waitlist *list)
{
    pthread_mutex_init(&list->lock, NULL);
    list->head = NULL;
    atomic_init(&list->n, 0);
}

void waitlist_deinit(struct waitlist *list)
{
    assert(!list->head);
    pthread_mutex_destroy(&list->lock);
}

/*
 * By target, ascending; positions and records are mostly waited for in the order in which they come, so the place is mostly found at
 * once from the end.
 */
static void insert(struct waitlist *list, struct waiter *waiter)
{
    struct waiter *before = list->head ? list->head->prev : NULL; /* the last one */

    while (before && before->target > waiter->target)
        before = before == list->head ? NULL : before->prev;
    if (before)
        DL_APPEND_ELEM(list->head, before, waiter);
    else
        DL_PREPEND(list->head, waiter);
}

void waitlist_add(struct waitlist *list, struct waiter *waiter, uint64_t target)
{
    waiter->target = target;
    waiter->result = 0;
    waiter->pid = 0;
    pthread_mutex_lock(&list->lock);
    assert(!waiter->list);
    waiter->list = list;
    insert(list, waiter);
    atomic_fetch_add(&list->n, 1);
    pthread_mutex_unlock(&list->lock);
    atomic_thread_fence(memory_order_seq_cst);
}

static void unlink_locked(struct waitlist *list, struct waiter *waiter)
{
    DL_DELETE(list->head, waiter);
    waiter->list = NULL;
    atomic_fetch_sub_explicit(&list->n, 1, memory_order_relaxed);
}

bool waitlist_remove(struct waitlist *list, struct waiter *waiter)
{
    bool on_list;

    pthread_mutex_lock(&list->lock);
    on_list = waiter->list == list;
    if (on_list)
        unlink_locked(list, waiter);
    pthread_mutex_unlock(&list->lock);
    return on_list;
}

bool waitlist_has(struct waitlist *list, const struct waiter *waiter)
{
    bool on_list;

    pthread_mutex_lock(&list->lock);
    on_list = waiter->list == list;
    pthread_mutex_unlock(&list->lock);
    return on_list;
}

void waitlist_fire(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                   int32_t pid)
{
    struct waiter *waiter, *tmp;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&list->n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&list->lock);
    DL_FOREACH_SAFE (list->head, waiter, tmp) {
        if (waiter->target > last)
            break;
        if (waiter->target < first)
            continue;
        unlink_locked(list, waiter);
        waiter->result = result;
        waiter->pid = pid;
        waiter->fire(waiter);
    }
    pthread_mutex_unlock(&list->lock);
}
