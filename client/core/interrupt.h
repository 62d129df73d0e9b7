/*
 * Ends the waits of a thread that asks for it: aclnpudSetInterruptCheck(), which bindings of
 * languages use whose signals are handled outside of signal handlers. A thread without a check pays
 * one load of a thread-local word per sleep, and sleeps as long as it has to.
 *
 * A signal ends the sleep of a thread in the kernel. One that comes between the last look of the
 * language and the sleep does not, nor one that another thread took: therefore such a thread never
 * sleeps longer than INTERRUPT_SLICE_NS, and asks then. Many short sleeps count as one long one.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_npud.h"
#include "client/core/biased_lock.h"

#define INTERRUPT_SLICE_NS UINT64_C(100000000)

extern __thread aclnpudInterruptCheck interrupt_check;

/** Has the calling thread a check? Without one, nothing here ends a wait. */
static inline bool interrupt_possible(void)
{
    return __builtin_expect(interrupt_check != NULL, 0);
}

/**
 * When a sleep that may last until deadline (CLOCK_MONOTONIC ns) is to end so that the check is
 * asked.
 */
uint64_t interrupt_slice(uint64_t deadline);

/**
 * Ask the check whether the call is to end. The check may run anything, unless locked: a lock is
 * held that a function of the library takes, and it only says whether it has something to run.
 */
bool interrupt_asked(bool locked);

/** A callback has run in a call of the calling thread, which holds no lock: is the call to end? */
bool interrupt_after_callback(void);

/**
 * pthread_mutex_lock() for a mutex that is held by threads that wait. False: the call is to end,
 * and it is not locked.
 */
bool interrupt_lock_slow(pthread_mutex_t *mutex);
static inline bool interrupt_lock(pthread_mutex_t *mutex)
{
    if (interrupt_possible())
        return interrupt_lock_slow(mutex);
    pthread_mutex_lock(mutex);
    return true;
}

/** The same for a biased lock. */
bool interrupt_take_slow(struct biased_lock *lock);
static inline bool interrupt_take(struct biased_lock *lock)
{
    if (interrupt_possible())
        return interrupt_take_slow(lock);
    biased_lock_take(lock);
    return true;
}

/**
 * pthread_cond_clockwait(), by CLOCK_MONOTONIC; UINT64_MAX: for ever. False: the call is to end.
 * The check runs without the mutex, as long as no other one is held.
 */
bool interrupt_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline);
