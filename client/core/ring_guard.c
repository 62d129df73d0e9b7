#include "client/core/ring_guard.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of all threads so far, those that have ended too: theirs are used again, none is freed. */
static _Atomic(struct ring_guard *) guards;

static bool take_guard(struct ring_guard *g)
{
    bool taken = false;

    return atomic_compare_exchange_strong(&g->taken, &taken, true);
}

struct ring_guard *ring_guard_new(void)
{
    struct ring_guard *g;

    for (g = atomic_load(&guards); g; g = g->next)
        if (take_guard(g))
            return g;
    g = aligned_alloc(alignof(struct ring_guard), sizeof(*g));
    if (!g)
        return NULL;
    memset(g, 0, sizeof(*g));
    atomic_store(&g->taken, true);
    g->next = atomic_load(&guards);
    while (!atomic_compare_exchange_weak(&guards, &g->next, g))
        ;
    return g;
}

void ring_guard_free(struct ring_guard *g)
{
    if (!g)
        return;
    ring_guard_set(g, NULL);
    atomic_store_explicit(&g->taken, false, memory_order_release);
}

static bool make_barrier(enum membarrier_cmd command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/*
 * A process says once that it is going to use barriers. Where it has threads, the kernel waits for
 * all processors then, which takes milliseconds, and seconds on a machine that is busy enough: so
 * not in the call in which the first ring goes, but when the library is loaded, mostly before there
 * are threads. A forked child inherits it.
 */
static __attribute__((constructor)) void register_barriers(void)
{
    make_barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool ring_guard_barrier(void)
{
    int saved = errno;
    bool done = make_barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

    errno = saved;
    return done;
}

bool ring_guard_is_used(const struct ring *ring)
{
    for (struct ring_guard *g = atomic_load(&guards); g; g = g->next)
        if (atomic_load_explicit(&g->ring, memory_order_acquire) == ring)
            return true;
    return false;
}
