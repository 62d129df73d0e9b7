#include "daemon/base/waitlist.h"

#include <assert.h>
#include <stddef.h>

#include "proto/util/clock.h"

void waitlist_init(struct waitlist *list)
{
    pthread_mutex_init(&list->lock, NULL);
    list->root = NULL;
    list->seed = (uint32_t)(uintptr_t)list ^ (uint32_t)clock_ns();
    atomic_init(&list->n, 0);
}

void waitlist_deinit(struct waitlist *list)
{
    assert(!list->root);
    pthread_mutex_destroy(&list->lock);
}

/* Exchange w with its parent, which keeps the order of targets. */
static void rotate_up(struct waitlist *list, struct waiter *w)
{
    struct waiter *p = w->up, *above = p->up, *between;

    if (p->left == w) {
        between = p->left = w->right;
        w->right = p;
    } else {
        between = p->right = w->left;
        w->left = p;
    }
    if (between)
        between->up = p;
    p->up = w;
    w->up = above;
    if (!above)
        list->root = w;
    else if (above->left == p)
        above->left = w;
    else
        above->right = w;
}

static uint32_t next_rank(struct waitlist *list)
{
    list->seed = list->seed * 1664525 + 1013904223;
    return list->seed ^ list->seed >> 16;
}

/* Behind its equals. */
static void insert_waiter(struct waitlist *list, struct waiter *w)
{
    struct waiter **place = &list->root, *up = NULL;

    while (*place) {
        up = *place;
        place = up->target <= w->target ? &up->right : &up->left;
    }
    *place = w;
    w->left = w->right = NULL;
    w->up = up;
    w->rank = next_rank(list);
    while (w->up && w->up->rank < w->rank)
        rotate_up(list, w);
}

static void delete_waiter(struct waitlist *list, struct waiter *w)
{
    while (w->left || w->right)
        rotate_up(list,
                  !w->right || (w->left && w->left->rank > w->right->rank) ? w->left : w->right);
    if (!w->up)
        list->root = NULL;
    else if (w->up->left == w)
        w->up->left = NULL;
    else
        w->up->right = NULL;
}

/* The first one whose target is at least from. */
static struct waiter *find_first_from(const struct waitlist *list, uint64_t from)
{
    struct waiter *found = NULL;

    for (struct waiter *at = list->root; at; at = at->target < from ? at->right : at->left)
        if (at->target >= from)
            found = at;
    return found;
}

void waitlist_add_locked(struct waitlist *list, struct waiter *waiter, uint64_t target)
{
    assert(!waiter->list);
    waiter->target = target;
    waiter->result = 0;
    waiter->pid = 0;
    waiter->list = list;
    insert_waiter(list, waiter);
    atomic_fetch_add(&list->n, 1);
}

void waitlist_add(struct waitlist *list, struct waiter *waiter, uint64_t target)
{
    pthread_mutex_lock(&list->lock);
    waitlist_add_locked(list, waiter, target);
    pthread_mutex_unlock(&list->lock);
    atomic_thread_fence(memory_order_seq_cst);
}

static void unlink_locked(struct waitlist *list, struct waiter *waiter)
{
    delete_waiter(list, waiter);
    waiter->list = NULL;
    atomic_fetch_sub_explicit(&list->n, 1, memory_order_relaxed);
}

struct waiter *waitlist_first_locked(const struct waitlist *list, uint64_t from)
{
    return find_first_from(list, from);
}

void waitlist_fire_locked(struct waitlist *list, struct waiter *waiter, int32_t result, int32_t pid)
{
    unlink_locked(list, waiter);
    waiter->result = result;
    waiter->pid = pid;
    waiter->fire(waiter);
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

bool waitlist_next(struct waitlist *list, uint64_t from, uint64_t *target)
{
    const struct waiter *waiter;

    pthread_mutex_lock(&list->lock);
    waiter = find_first_from(list, from);
    if (waiter)
        *target = waiter->target;
    pthread_mutex_unlock(&list->lock);
    return waiter != NULL;
}

void waitlist_fire(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                   int32_t pid)
{
    struct waiter *waiter;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&list->n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&list->lock);
    while ((waiter = find_first_from(list, first)) && waiter->target <= last)
        waitlist_fire_locked(list, waiter, result, pid);
    pthread_mutex_unlock(&list->lock);
}

bool waitlist_fire_most(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                        int32_t pid, unsigned max)
{
    struct waiter *waiter;
    bool none_left = false;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&list->n, memory_order_relaxed) == 0)
        return true;
    pthread_mutex_lock(&list->lock);
    for (; !none_left; max--) {
        waiter = find_first_from(list, first);
        none_left = !waiter || waiter->target > last;
        if (none_left || max == 0)
            break;
        waitlist_fire_locked(list, waiter, result, pid);
    }
    pthread_mutex_unlock(&list->lock);
    return none_left;
}

bool waitlist_fire_some(struct waitlist *list, uint64_t *next, uint64_t last, unsigned max,
                        bool (*test)(const struct waiter *waiter))
{
    struct waiter *waiter;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&list->n, memory_order_relaxed) == 0)
        return true;
    pthread_mutex_lock(&list->lock);
    for (; max > 0 && (waiter = find_first_from(list, *next)) && waiter->target <= last; max--) {
        *next = waiter->target + 1;
        if (test(waiter))
            waitlist_fire_locked(list, waiter, 0, 0);
    }
    pthread_mutex_unlock(&list->lock);
    return max > 0;
}
