/*
 * The order of the library's locks, checked: Makefile includes this before each file of client/ in
 * builds for tests. The order is the table in client/core/lock_order.h.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#define LOCK_ORDER 1

/** The lock is of this rank from here on, in place of what was there before. */
void lock_order_know_as(const void *lock, int rank, const char *name);
#define lock_order_know(lock, rank) lock_order_know_as(lock, rank, #rank)
/**
 * The calling thread is about to wait for the lock. Aborts if it holds one that is not above it.
 */
void lock_order_take(const void *lock);
/** It has it, without having waited for it for ever. */
void lock_order_has(const void *lock);
void lock_order_give(const void *lock);
/** It gives the mutex back while it sleeps, and no other lock below it. */
void lock_order_sleep(const void *mutex);

static inline int lock_order_tried(const void *lock, int error)
{
    if (error == 0)
        lock_order_has(lock);
    return error;
}

#define pthread_mutex_lock(m)              (lock_order_take(m), pthread_mutex_lock(m))
#define pthread_mutex_trylock(m)           lock_order_tried(m, pthread_mutex_trylock(m))
#define pthread_mutex_clocklock(m, c, t)   lock_order_tried(m, pthread_mutex_clocklock(m, c, t))
#define pthread_mutex_unlock(m)            (lock_order_give(m), pthread_mutex_unlock(m))
#define pthread_rwlock_rdlock(l)           (lock_order_take(l), pthread_rwlock_rdlock(l))
#define pthread_rwlock_wrlock(l)           (lock_order_take(l), pthread_rwlock_wrlock(l))
#define pthread_rwlock_unlock(l)           (lock_order_give(l), pthread_rwlock_unlock(l))
#define pthread_cond_wait(c, m)            (lock_order_sleep(m), pthread_cond_wait(c, m))
#define pthread_cond_clockwait(c, m, k, t) (lock_order_sleep(m), pthread_cond_clockwait(c, m, k, t))
