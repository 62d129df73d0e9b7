#include "daemon/base/waitlist.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stddef.h>

#include "proto/util/clock.h"

#define LOCKS_LOG2 8 /* engines are few: two that meet at one lock for two lists are rare */

/* In cache lines of their own, so that engines at different lists do not slow each other down. */
static struct {
    alignas(64) pthread_mutex_t lock;
} locks[1 << LOCKS_LOG2] = {[0 ...(1 << LOCKS_LOG2) - 1] = {PTHREAD_MUTEX_INITIALIZER}};

static pthread_mutex_t *lock_of(const struct waitlist *list)
{
    return &locks[(uint64_t)(uintptr_t)list * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LOCKS_LOG2)]
                .lock;
}

void waitlist_lock(const struct waitlist *list)
{
    pthread_mutex_lock(lock_of(list));
}

void waitlist_unlock(const struct waitlist *list)
{
    pthread_mutex_unlock(lock_of(list));
}

#ifdef NPUD_KILL_POINTS
void waitlist_forget_locks(void)
{
    for (unsigned i = 0; i < 1 << LOCKS_LOG2; i++)
        pthread_mutex_init(&locks[i].lock, NULL);
}
#endif

void waitlist_init(struct waitlist *list)
{
    list->root = NULL;
    list->seed = (uint32_t)(uintptr_t)list ^ (uint32_t)clock_ns();
    atomic_init(&list->n, 0);
}

void waitlist_deinit(struct waitlist *list)
{
    (void)list;
    assert(!list->root);
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

static void count_in_group(struct waiter_group *group)
{
    if (group && group->n++ == 0)
        atomic_fetch_add(group->groups, 1);
}

static void uncount_in_group(struct waiter_group *group)
{
    if (group && --group->n == 0)
        atomic_fetch_sub(group->groups, 1);
}

void waitlist_hold_group(struct waiter_group *group, bool hold)
{
    if (hold)
        count_in_group(group);
    else
        uncount_in_group(group);
}

void waitlist_add_locked(struct waitlist *list, struct waiter *waiter, uint64_t target)
{
    assert(!waiter->list);
    waiter->target = target;
    waiter->result = 0;
    waiter->pid = 0;
    waiter->list = list;
    insert_waiter(list, waiter);
    count_in_group(waiter->group);
    atomic_fetch_add(&list->n, 1);
}

void waitlist_add(struct waitlist *list, struct waiter *waiter, uint64_t target)
{
    waitlist_lock(list);
    waitlist_add_locked(list, waiter, target);
    waitlist_unlock(list);
    atomic_thread_fence(memory_order_seq_cst);
}

static void unlink_locked(struct waitlist *list, struct waiter *waiter)
{
    delete_waiter(list, waiter);
    uncount_in_group(waiter->group);
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

    waitlist_lock(list);
    on_list = waiter->list == list;
    if (on_list)
        unlink_locked(list, waiter);
    waitlist_unlock(list);
    return on_list;
}

bool waitlist_has(struct waitlist *list, const struct waiter *waiter)
{
    bool on_list;

    waitlist_lock(list);
    on_list = waiter->list == list;
    waitlist_unlock(list);
    return on_list;
}

bool waitlist_next(struct waitlist *list, uint64_t from, uint64_t *target)
{
    const struct waiter *waiter;

    waitlist_lock(list);
    waiter = find_first_from(list, from);
    if (waiter)
        *target = waiter->target;
    waitlist_unlock(list);
    return waiter != NULL;
}

void waitlist_fire_now(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                       int32_t pid)
{
    struct waiter *waiter;

    waitlist_lock(list);
    while ((waiter = find_first_from(list, first)) && waiter->target <= last)
        waitlist_fire_locked(list, waiter, result, pid);
    waitlist_unlock(list);
}

void waitlist_fire(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                   int32_t pid)
{
    atomic_thread_fence(memory_order_seq_cst);
    waitlist_fire_fenced(list, first, last, result, pid);
}

bool waitlist_fire_most(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                        int32_t pid, unsigned max)
{
    struct waiter *waiter;
    bool none_left = false;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&list->n, memory_order_relaxed) == 0)
        return true;
    waitlist_lock(list);
    for (; !none_left; max--) {
        waiter = find_first_from(list, first);
        none_left = !waiter || waiter->target > last;
        if (none_left || max == 0)
            break;
        waitlist_fire_locked(list, waiter, result, pid);
    }
    waitlist_unlock(list);
    return none_left;
}

bool waitlist_fire_some(struct waitlist *list, uint64_t *next, uint64_t last, unsigned max,
                        bool (*test)(const struct waiter *waiter))
{
    struct waiter *waiter;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&list->n, memory_order_relaxed) == 0)
        return true;
    waitlist_lock(list);
    for (; max > 0 && (waiter = find_first_from(list, *next)) && waiter->target <= last; max--) {
        *next = waiter->target + 1;
        if (test(waiter))
            waitlist_fire_locked(list, waiter, 0, 0);
    }
    waitlist_unlock(list);
    return max > 0;
}
