/*
 * A lock between threads of one process that is biased to the first thread which takes it, its
 * owner: that thread takes it and gives it back with plain stores. When another thread comes, the
 * bias is revoked, once and for good. From then on it is a plain lock, of one atomic operation to
 * take it and one to give it back.
 *
 * A plain lock would miss budgets of row 2 (make bench-ab, AMD EPYC with 2 processors, 2026-11-27):
 * a record takes 27.3 ns with one and 15.4 with this (budget 20), queued with a time 36.1 and 20.0
 * (25), a queued launch 21.5 and 13.6 (20).
 *
 *     owner          held  word  the lock
 *     0              0     0     no thread has taken it
 *     id             0     0     free, and biased to the thread with this id
 *     id             1     0     the owner has it
 *     id | REVOKED   1     1, 2  the owner has it, and the thread that has `word` waits for that
 *     id | REVOKED   0     1, 2  the thread that has `word` has it
 *     id | REVOKED   0     0     free, and plain
 *     REVOKED                    the same: plain from the beginning, without membarrier(2) or TSan
 *
 * Any other thread than the owner takes `word` first, so one thread at a time deals with the bias:
 *
 *     the owner takes           the owner gives           another thread, with `word`
 *     1 held = 1                1 held = 0 (release)      1 owner |= REVOKED, if it is not yet
 *     2 owner is still id?      2 owner is still id?      2 membarrier(2), for all threads
 *       yes: has the lock         no: wakes `held`        3 held is 0 (acquire)? has the lock
 *       no: gives, takes `word`                             no: sleeps on `held`, looks again
 *
 * Exclusion. The barrier is a full fence at one point of the owner's program. If that point is
 * before the owner's step 2, the owner finds REVOKED. If it is behind, the other thread finds the
 * owner's 1, or a later 0. So what a processor exchanges of the owner's steps does not matter: only
 * the compiler must keep their order (atomic_signal_fence). By the same argument the owner, when it
 * gives, sees REVOKED, or the other thread sees the 0 and does not sleep.
 *
 * What the lock protects. `held` and `word` have release and acquire. The owner itself takes
 * without acquire: no other thread has had the lock before, and the owner stores nothing before its
 * look has come out well.
 *
 * Only the owner stores to `held`, so for it, and for no other thread, a 1 there means that it has
 * the lock. An owner that was stopped between its two steps stores a late 1, and takes it back: a
 * thread that meets that 1 waits for a moment. A thread that gives up at its deadline gives `word`
 * back; the next one looks at `held`, too.
 *
 * Threads that end. No id is used again. An owner that has ended without the lock has left 0 in
 * `held`. If it has ended with the lock, other threads wait for ever, as for a mutex. No function
 * here is a cancellation point.
 *
 * Fork. The thread that forks goes on in the child with its id, and has the locks that it had. A
 * lock that another thread held stays locked, as a mutex would: the child uses no object of its
 * parent's session (client/core/process.h). The registration for barriers is inherited.
 *
 * membarrier(2) may be forbidden after the library was loaded, by a filter that the program puts on
 * itself. Then the thread waits REVOKE_BLIND_NS instead, far longer than a processor keeps a store
 * to itself, and no lock becomes biased any more.
 *
 * The memory stays until biased_lock_give() has returned. All zero is a lock that no thread has
 * taken.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "client/core/lock_order.h"

#define BIASED_NOT_YET  UINT64_C(0)
#define BIASED_STRANGER UINT64_C(1) /* a thread that has no id yet; never in `owner` */
#define BIASED_REVOKED  (UINT64_C(1) << 63)

#define REVOKE_BLIND_NS UINT64_C(20000000)

struct biased_lock {
    _Atomic uint64_t owner;
    _Atomic uint32_t held; /* futex: of the thread that has `word` */
    _Atomic uint32_t word; /* futex: 0 free, 1 taken, 2 taken and a thread may sleep */
};

/** The calling thread's id. */
extern __thread uint64_t biased_lock_self;

/* What the functions below do when the bias does not decide. */
bool biased_lock_take_slow(struct biased_lock *l, uint64_t self, const struct timespec *deadline);
void biased_lock_give_slow(struct biased_lock *l, uint64_t self);
void biased_lock_wake(struct biased_lock *l) __attribute__((cold));
void biased_lock_retreat(struct biased_lock *l) __attribute__((cold));

static inline bool biased_lock_is_of(const struct biased_lock *l, uint64_t self)
{
    return __builtin_expect(atomic_load_explicit(&l->owner, memory_order_relaxed) == self, 1);
}

/** Take the lock if it is biased to the thread with this id, and free. */
static inline bool biased_lock_take_biased(struct biased_lock *l, uint64_t self)
{
    /* A thread that has the lock waits for itself for ever, as for a mutex. */
    if (!biased_lock_is_of(l, self) ||
        __builtin_expect(atomic_load_explicit(&l->held, memory_order_relaxed) != 0, 0))
        return false;
    atomic_store_explicit(&l->held, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (biased_lock_is_of(l, self))
        return true;
    biased_lock_retreat(l);
    return false;
}

/**
 * Take the lock, as the thread with this id: the calling one, but in tests that play several. With
 * a deadline (CLOCK_MONOTONIC): false when it has passed. NULL: waits for ever.
 */
static inline bool biased_lock_take_as(struct biased_lock *l, uint64_t self,
                                       const struct timespec *deadline)
{
    return biased_lock_take_biased(l, self) || biased_lock_take_slow(l, self, deadline);
}

static inline void biased_lock_take(struct biased_lock *l)
{
    lock_order_take(l);
    biased_lock_take_as(l, biased_lock_self, NULL);
}

static inline bool biased_lock_take_until(struct biased_lock *l, const struct timespec *deadline)
{
    bool taken = biased_lock_take_as(l, biased_lock_self, deadline);

    if (taken)
        lock_order_has(l);
    return taken;
}

/** Give it back, as the thread that has taken it. */
static inline void biased_lock_give_as(struct biased_lock *l, uint64_t self)
{
    lock_order_give(l);
    if (!biased_lock_is_of(l, self)) {
        biased_lock_give_slow(l, self);
        return;
    }
    atomic_store_explicit(&l->held, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (!biased_lock_is_of(l, self))
        biased_lock_wake(l);
}

static inline void biased_lock_give(struct biased_lock *l)
{
    biased_lock_give_as(l, biased_lock_self);
}
