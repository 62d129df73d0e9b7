/*
 * Every atomic operation of what is included, or compiled, after this file is a step of
 * tests/unit/interleave.h. All system headers come before it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/util/futex.h"

void interleave_step(void);
void interleave_wake(const void *word);
void interleave_lock(void);
void interleave_unlock(void);
void interleave_swapped(const void *word, uint64_t value);

#define SWAP_(p, e, v)                                                                             \
    __extension__({                                                                                \
        __typeof__(e) expected_ = (e);                                                             \
        bool same_ = *(p) == *expected_;                                                           \
        if (same_) {                                                                               \
            *(p) = (v);                                                                            \
            interleave_swapped((const void *)(p), (uint64_t)(v));                                  \
        } else {                                                                                   \
            *expected_ = *(p);                                                                     \
        }                                                                                          \
        same_;                                                                                     \
    })

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#define atomic_load(p)                     (interleave_step(), *(p))
#define atomic_load_explicit(p, order)     (interleave_step(), *(p))
#define atomic_store(p, v)                 (interleave_step(), (void)(*(p) = (v)))
#define atomic_store_explicit(p, v, order) (interleave_step(), (void)(*(p) = (v)))
#define atomic_fetch_add(p, v)             atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_add_explicit(p, v, order)                                                     \
    (interleave_step(), __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST))
#define atomic_fetch_or_explicit(p, v, order)                                                      \
    (interleave_step(), __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST))
#define atomic_fetch_and_explicit(p, v, order)                                                     \
    (interleave_step(), __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(p, e, v) (interleave_step(), SWAP_(p, e, v))
#define atomic_compare_exchange_strong_explicit(p, e, v, yes, no)                                  \
    (interleave_step(), SWAP_(p, e, v))
#define atomic_compare_exchange_weak(p, e, v)                   (interleave_step(), SWAP_(p, e, v))
#define atomic_compare_exchange_weak_explicit(p, e, v, yes, no) (interleave_step(), SWAP_(p, e, v))
#define atomic_thread_fence(order)                              ((void)0)

#define futex_wake_all(word) (interleave_step(), interleave_wake((const void *)(word)))
/* What is done under a lock is one step for all that take the lock. */
#define pthread_mutex_lock(lock)   ((void)(lock), interleave_lock())
#define pthread_mutex_unlock(lock) ((void)(lock), interleave_unlock())
