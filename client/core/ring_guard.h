/*
 * Who uses a ring says so in a place of his own before he looks whether it still is the queue's;
 * who takes a ring from a queue looks at all these places afterwards. Each stores before he loads,
 * which takes a barrier on both sides: the rare one, who takes away, makes it for all threads
 * (membarrier(2)), so that the others pay for none.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ring;

struct ring_guard {
    alignas(64) _Atomic(struct ring *) ring; /* that its thread uses */
    _Atomic bool taken;                      /* by a thread */
    struct ring_guard *next;
};

/** One for a thread that has none. NULL: no memory. */
struct ring_guard *ring_guard_new(void) __attribute__((cold));

/** The thread ends. NULL is fine. */
void ring_guard_free(struct ring_guard *guard);

/**
 * Whoever begins to use a ring from here on sees what the caller has stored; who has begun before
 * is seen by ring_guard_is_used(). False: the kernel does not let us, and nobody can tell who uses
 * what.
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
