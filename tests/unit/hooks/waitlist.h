/* daemon/base/waitlist.c for test_value_order: a step before each lock. */
#pragma once

#include <pthread.h>

int list_lock(pthread_mutex_t *lock);
int list_unlock(pthread_mutex_t *lock);
#define pthread_mutex_lock(lock)   list_lock(lock)
#define pthread_mutex_unlock(lock) list_unlock(lock)
