/*
 * Ranges of memory that a thread of the library copies from or to by itself at this moment. What
 * unmaps memory of the library's waits until no thread has it: else a copy beside aclrtFree() or
 * aclrtUnmapMem() would fault, or write to what is mapped there next.
 *
 * A thread stores its ranges in a mark of its own, and then looks whether the memory is still there
 * (session->memory_changes). What takes memory away first takes it out of the table, which counts
 * as a change, and then reads all marks. Each side stores before it loads, which takes a barrier on
 * both sides: the rare one, which unmaps, makes it for all threads (ring_guard_barrier()), so that
 * a copy pays for none.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "client/core/thread.h"
#include "client/core/thread_mark.h"

#define HOLD_RANGES 2u /* to, from */

struct hold {
    struct thread_mark mark;
    _Atomic uintptr_t start[HOLD_RANGES];
    _Atomic uint64_t size; /* of both; 0: none is held */
};

struct hold *hold_new(void) __attribute__((cold));

/** The calling thread's. NULL: no memory. */
static inline struct hold *hold_mine(void)
{
    struct hold *h = thread_self()->hold;

    return __builtin_expect(h != NULL, 1) ? h : hold_new();
}

/** Before the look whether the memory is there. Holds are not nested. */
static inline void hold_set(struct hold *h, const void *to, const void *from, uint64_t size)
{
    atomic_store_explicit(&h->start[0], (uintptr_t)to, memory_order_relaxed);
    atomic_store_explicit(&h->start[1], (uintptr_t)from, memory_order_relaxed);
    atomic_store_explicit(&h->size, size, memory_order_relaxed);
    /*
     * The processor may load what follows before, but not the compiler: hold_await() takes care of
     * the former.
     */
    atomic_signal_fence(memory_order_seq_cst);
}

/** release: what the thread did there is over. */
static inline void hold_clear(struct hold *h)
{
    atomic_store_explicit(&h->size, 0, memory_order_release);
}

/**
 * Wait until no thread holds any of these bytes. They are in no table any more, so none begins to.
 * A thread that holds something waits for nothing: it takes as long as a copy. The caller may have
 * locks, but memory_lock.
 */
void hold_await(uintptr_t start, size_t size);
