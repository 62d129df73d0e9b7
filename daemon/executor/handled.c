#include "daemon/executor/handled.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t handled; /* changes under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

void handled_set(uint64_t number)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&handled, number, memory_order_release);
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

void handled_await(uint64_t number)
{
    if (atomic_load_explicit(&handled, memory_order_acquire) >= number)
        return;
    pthread_mutex_lock(&lock);
    while (atomic_load_explicit(&handled, memory_order_relaxed) < number)
        pthread_cond_wait(&more, &lock);
    pthread_mutex_unlock(&lock);
}
