/*
 * A lock between threads of one process that is biased to the first thread which takes it, its
 * owner: that thread takes it and gives it back with plain stores. When another thread comes, the
 * bias is revoked, once and for good. From then on it is a plain lock, of one atomic operation to
 * take it and one to give it back.
 *
 *     owner   NOT_YET -> id of a thread -> LEAVING -> NOBODY
 *             NOT_YET -> NOBODY               without membarrier(2), and under TSan
 *     held    1: the owner has the lock. Only the owner stores here.
 *     word    the plain lock, as long as `owner` is NOBODY
 *
 * Exclusion. The owner stores 1 in `held` and then looks at `owner` once more: it has the lock if
 * its own id is still there. A revoker stores LEAVING in `owner`, makes a barrier for all threads
 * (membarrier(2)), and then waits until `held` is 0. The barrier is a full fence at one point of
 * the owner's program.
 *   - The point is before the owner's second look: the owner finds LEAVING, and stores 0 again.
 *   - The point is behind that look, and so behind the store: the revoker finds the 1, or the 0
 *     that the owner has stored when it gave the lock back.
 * No other order between the two is needed. So it does not matter that an x86 processor executes
 * the look before others see the store, nor that an arm64 processor may exchange any two of these
 * accesses: only the compiler must keep their order (atomic_signal_fence).
 *
 * What the lock protects. The owner stores 0 with release, and the revoker loads it with acquire;
 * NOBODY is stored with release and loaded with acquire, and the plain lock has these orders too.
 * The owner itself takes the lock without acquire: no other thread has had it before, so what the
 * processor loads too early is what the owner has left there. It stores nothing before the look has
 * come out well.
 *
 * LEAVING is a state of its own: with NOBODY in its place a second revoker would take the plain
 * lock while the first one still waits for the owner. Each revoker makes the barrier, because the
 * one that has stored LEAVING may not have got to it. NOBODY is stored when `held` was 0 behind a
 * barrier; the owner cannot come back.
 *
 * Sleep. A revoker sleeps on `held`. The owner stores 0, and then looks whether it still is the
 * owner, to wake the revokers if not. By the same argument, one of the two sees the other.
 *
 * An owner that was stopped between its two looks stores 1 in `held` for a moment, though another
 * thread may have the plain lock by then. So biased_lock_give() looks at `owner`, never at `held`,
 * to see which lock it is to give back.
 *
 * The end of a thread. An id is never used again, so no thread is taken for an owner that has
 * ended. The owner need do nothing to leave: if it has ended without the lock, `held` is 0. If it
 * has ended with the lock, other threads wait for ever, as for a mutex. No function here is a
 * cancellation point.
 *
 * Fork. The thread that forks goes on in the child with its id, and has the locks that it had. A
 * lock that another thread held stays locked, as a mutex would: the child uses no object of its
 * parent's session (client/core/process.h). The registration for barriers is inherited.
 *
 * membarrier(2) may be forbidden after the library was loaded, by a filter that the program puts on
 * itself. Then a revoker waits REVOKE_BLIND_NS instead, far longer than a processor keeps a store
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

#define BIASED_NOT_YET  UINT64_C(0)
#define BIASED_LEAVING  UINT64_C(1)
#define BIASED_NOBODY   UINT64_C(2)
#define BIASED_STRANGER UINT64_C(3) /* a thread that has no id yet; never in `owner` */

#define REVOKE_BLIND_NS UINT64_C(20000000)

struct biased_lock {
    _Atomic uint64_t owner;
    _Atomic uint32_t held; /* futex: for revokers */
    _Atomic uint32_t word; /* futex: 0 free, 1 taken, 2 taken and a thread may sleep */
};

/** The calling thread's id. */
extern __thread uint64_t biased_lock_self;

/* What the functions below do when the bias does not decide. */
bool biased_lock_take_slow(struct biased_lock *l, uint64_t self, const struct timespec *deadline);
void biased_lock_give_plain(struct biased_lock *l);
void biased_lock_retreat(struct biased_lock *l) __attribute__((cold));
void biased_lock_wake(struct biased_lock *l) __attribute__((cold));

/** Take the lock if it is biased to the thread with this id, and free. */
static inline bool biased_lock_take_biased(struct biased_lock *l, uint64_t self)
{
    /* A thread that has the lock waits for itself for ever, as for a mutex. */
    if (__builtin_expect(atomic_load_explicit(&l->owner, memory_order_relaxed) != self ||
                             atomic_load_explicit(&l->held, memory_order_relaxed) != 0,
                         0))
        return false;
    atomic_store_explicit(&l->held, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&l->owner, memory_order_relaxed) == self, 1))
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
    biased_lock_take_as(l, biased_lock_self, NULL);
}

static inline bool biased_lock_take_until(struct biased_lock *l, const struct timespec *deadline)
{
    return biased_lock_take_as(l, biased_lock_self, deadline);
}

/** Give it back: the thread that has taken it. */
static inline void biased_lock_give(struct biased_lock *l)
{
    if (__builtin_expect(atomic_load_explicit(&l->owner, memory_order_relaxed) == BIASED_NOBODY,
                         0)) {
        biased_lock_give_plain(l);
        return;
    }
    atomic_store_explicit(&l->held, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    /* LEAVING, or NOBODY: one revoker may have come to the end while another one sleeps. */
    if (__builtin_expect(atomic_load_explicit(&l->owner, memory_order_relaxed) <= BIASED_NOBODY, 0))
        biased_lock_wake(l);
}
