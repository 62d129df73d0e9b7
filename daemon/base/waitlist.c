#include "daemon/base/waitlist.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stddef.h>

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

/* Behind its equals. */
static int compare_targets(const struct waiter *new, const struct waiter *there)
{
    return new->target < there->target ? -1 : 1;
}

RB_GENERATE_INTERNAL(waiter_tree, waiter, tree, compare_targets, __attribute__((unused)) static)

void waitlist_init(struct waitlist *list)
{
    RB_INIT(&list->waiters);
    atomic_init(&list->n, 0);
}

void waitlist_deinit(struct waitlist *list)
{
    (void)list;
    assert(RB_EMPTY(&list->waiters));
}

/* The first one whose target is at least from. */
static struct waiter *find_first_from(const struct waitlist *list, uint64_t from)
{
    struct waiter *at = RB_ROOT(&list->waiters), *found = NULL;

    while (at) {
        bool before = at->target < from;

        found = before ? found : at;
        at = before ? RB_RIGHT(at, tree) : RB_LEFT(at, tree);
    }
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
    RB_INSERT(waiter_tree, &list->waiters, waiter);
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
    RB_REMOVE(waiter_tree, &list->waiters, waiter);
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
