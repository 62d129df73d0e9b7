/*
 * Pages of allocations that npud is the first to touch.
 *
 * The kernel charges a page of shared memory to the control group of the process that touches it
 * first. The library does so before a task needs the page. A client that does not, or that takes
 * pages away again, could have npud's engines get all of its memory on npud's account, until npud
 * has none. So npud's mappings of allocations are registered with userfaultfd(2): a page that the
 * file does not have raises SIGBUS in the thread that needs it, which gets the page, counts it, and
 * goes on. A page that is swapped out is not taken for one that is missing, and nothing waits for
 * a lock of the file.
 *
 * What npud has filled for a user is bounded ([limits] filled_memory): allocation_filled(). Where
 * the kernel has no userfaultfd for npud, nothing is counted, and the log says so.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Begin to count, in mappings made from now on. */
void filled_init(void);
/** No thread touches such a mapping any more. */
void filled_deinit(void);

/** Count in this shared mapping of a memfd, of whole pages. */
void filled_watch(void *map, size_t size);

/** Of this thread, since filled_take(). Its signal handler writes it. */
extern _Thread_local volatile uint64_t filled_bytes;

/** Whether this thread has filled any. Each task asks. */
static inline bool filled_any(void)
{
    /* All that the thread has touched before it has touched now. */
    atomic_signal_fence(memory_order_seq_cst);
    return __builtin_expect(filled_bytes != 0, 0);
}

/** Bytes that this thread has filled since the last call. */
uint64_t filled_take(void);

/** Another thread has filled these, and taken them, for this one. */
static inline void filled_add(uint64_t bytes)
{
    filled_bytes += bytes;
}
