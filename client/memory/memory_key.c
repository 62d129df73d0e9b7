#include "client/memory/memory_key.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic int key = -1;

/* A forked child has the keys of its parent. */
static void make_key(void)
{
    atomic_store(&key, pkey_alloc(0, PKEY_DISABLE_ACCESS));
}

int memory_key(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_key);
    return atomic_load_explicit(&key, memory_order_relaxed);
}

void memory_key_open(bool open)
{
    int k = atomic_load_explicit(&key, memory_order_relaxed);

    if (k >= 0)
        pkey_set(k, open ? 0 : PKEY_DISABLE_ACCESS);
}
