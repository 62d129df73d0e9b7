/*
 * A ring of a queue is unmapped only when no thread uses it. A thread that uses a ring stores its
 * address in a guard of its own, and then looks whether the ring still is the queue's. The thread
 * that takes a ring away from its queue does so first, and then reads all guards. Each side stores
 * before it loads, which takes a barrier on both sides: the rare one, which takes the ring away,
 * makes it for all threads (membarrier(2)), so that the users of rings pay for none.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "client/core/thread_mark.h"

struct ring;

struct ring_guard {
    struct thread_mark mark;
    _Atomic(struct ring *) ring; /* that its thread uses */
};

/** One for a thread that has none. NULL: no memory. */
struct ring_guard *ring_guard_new(void) __attribute__((cold));

/** The thread ends. NULL is fine. */
void ring_guard_free(struct ring_guard *guard);

/** Did the kernel register the process for barriers? Constant since the library was loaded. */
bool ring_guard_registered(void);

/**
 * A barrier for all threads. A thread that begins to use a ring afterwards sees what the caller has
 * stored before; one that began before is seen by ring_guard_is_used(). False: the kernel refuses,
 * and which threads use a ring cannot be known.
 */
bool ring_guard_barrier(void);

/** Whether a thread uses it. */
bool ring_guard_is_used(const struct ring *ring);

/** release: what the thread did with the ring before is over. */
static inline void ring_guard_set(struct ring_guard *guard, struct ring *ring)
{
    atomic_store_explicit(&guard->ring, ring, memory_order_release);
    /*
     * The processor may load what follows before, but not the compiler: ring_guard_barrier() takes
     * care of the former.
     */
    atomic_signal_fence(memory_order_seq_cst);
}
