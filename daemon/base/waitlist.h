/*
 * Lists of waiters inside npud, each with the number that it waits for (a position, a record).
 *
 * A waiter is a member of what waits: a stream parked by its engine, or an object whose slot may be
 * given out again only when a stream has passed a point. The waited-for side (any engine, or the
 * control thread) fires; what that means is the waiter's `fire` function, called with the list's
 * lock held, which must only hand it on (engine_unpark(), job_send()).
 *
 * Order: waiting is add, then test the condition; firing is change the condition, then
 * waitlist_fire(), which begins with a fence and a look at `n`. One of the two sees the other, and
 * an event without waiters costs no lock.
 *
 * Locks: list lock before inbox lock (engine.c); never two lists: some have one lock together.
 */
#pragma once

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waitlist;

/*
 * Waiters of one list that belong together: the list counts, under its lock, how many of a group
 * are on it, and how many groups have one there. A group outlives its waiters.
 */
struct waiter_group {
    uint32_t n;
    _Atomic uint32_t *groups; /* of the list that have a waiter. Changed under the list's lock */
};

struct waiter {
    RB_ENTRY(waiter) tree;
    struct waitlist *list; /* NULL: on none; changes only under that list's lock */
    uint64_t target;
    int32_t result; /* set by the side that fires: 0 or an ACL error */
    int32_t pid;    /* of the process that caused result; 0: none */
    void (*fire)(struct waiter *waiter);
    uint32_t age;               /* for those that add it: pages.h */
    struct waiter_group *group; /* NULL: of none */
};

RB_HEAD(waiter_tree, waiter);

/*
 * A tree by target, equals in the order in which they came: targets are the clients' choice, and a
 * client that waits for the furthest first must not make engines walk along thousands of its
 * streams.
 */
struct waitlist {
    struct waiter_tree waiters;
    _Atomic uint32_t n;
};

void waitlist_init(struct waitlist *list);
/** Asserts that there is no waiter. */
void waitlist_deinit(struct waitlist *list);

/**
 * The list's lock, for what changes together with its waiters. Held briefly: the lists of other
 * sessions may have the same one. A session has hundreds of lists, and an own lock in each would be
 * most of what npud knows of an event.
 */
void waitlist_lock(const struct waitlist *list);
void waitlist_unlock(const struct waitlist *list);

#ifdef NPUD_KILL_POINTS
/** The thread that had any of the locks is gone, as killed: a test has left npud by a jump. */
void waitlist_forget_locks(void);
#endif

void waitlist_add(struct waitlist *list, struct waiter *waiter, uint64_t target);

/**
 * For lists whose condition is a state that a waiter changes by going on: the caller holds
 * the lock over test and change. Add; the first one whose target is at least from, or NULL; fire
 * one.
 */
void waitlist_add_locked(struct waitlist *list, struct waiter *waiter, uint64_t target);
struct waiter *waitlist_first_locked(const struct waitlist *list, uint64_t from);
void waitlist_fire_locked(struct waitlist *list, struct waiter *waiter, int32_t result,
                          int32_t pid);

/** A group counts as if it had one more waiter on the list, or no more. Caller holds the lock. */
void waitlist_hold_group(struct waiter_group *group, bool hold);

/** Take the waiter off its list. False: it was fired (fire has returned), or was on no list. */
bool waitlist_remove(struct waitlist *list, struct waiter *waiter);

/** Is it still on the list? A moment later it may be fired. */
bool waitlist_has(struct waitlist *list, const struct waiter *waiter);

/**
 * Is any waiter on the list? Of waiters that another thread adds or fires meanwhile it may tell
 * either.
 */
static inline bool waitlist_has_any(const struct waitlist *list)
{
    return atomic_load_explicit(&list->n, memory_order_relaxed) != 0;
}

/** The smallest target >= from that has a waiter. False: there is none. */
bool waitlist_next(struct waitlist *list, uint64_t from, uint64_t *target);

/**
 * Go through at most `max` waiters with targets in [*next, last], which must be unique on this
 * list, fire those for whom test() holds, and leave in *next where to go on. True: that was all of
 * them. test() is called with the list's lock held.
 */
bool waitlist_fire_some(struct waitlist *list, uint64_t *next, uint64_t last, unsigned max,
                        bool (*test)(const struct waiter *waiter));

/** Fire all waiters with a target in [first, last]. */
void waitlist_fire(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                   int32_t pid);
/** What waitlist_fire() does when `n` says that there are waiters. */
void waitlist_fire_now(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                       int32_t pid);
/** The same for a caller that has put a seq_cst fence behind the change of the condition. */
static inline void waitlist_fire_fenced(struct waitlist *list, uint64_t first, uint64_t last,
                                        int32_t result, int32_t pid)
{
    if (__builtin_expect(atomic_load_explicit(&list->n, memory_order_relaxed) != 0, 0))
        waitlist_fire_now(list, first, last, result, pid);
}

/**
 * The same, and at most max of them: each costs the engine that goes on with it. False: there are
 * more, and the caller fires them in a later step.
 */
bool waitlist_fire_most(struct waitlist *list, uint64_t first, uint64_t last, int32_t result,
                        int32_t pid, unsigned max);
