/*
 * What other threads read of a thread: a mark, in a list that is read without a lock. A mark is
 * used again after its thread has ended, and is never freed.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/** First member of a mark. The marks of a list are all of one type. */
struct thread_mark {
    alignas(64) _Atomic bool taken; /* by a thread */
    void *next;
};

/**
 * A mark of the list for a thread that has none: one whose thread has ended, as thread_mark_free()
 * got it, or a new one, all zero, of that size. NULL: no memory.
 */
void *thread_mark_new(_Atomic(void *) *list, size_t size) __attribute__((cold));

/** Its thread has ended. The mark is as the next one shall find it. */
static inline void thread_mark_free(struct thread_mark *mark)
{
    /* release: what the thread stored in it comes before what the next one stores. */
    atomic_store_explicit(&mark->taken, false, memory_order_release);
}
