#include "client/core/ring_guard.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(void *) guards; /* of all threads so far */

struct ring_guard *ring_guard_new(void)
{
    return thread_mark_new(&guards, sizeof(struct ring_guard));
}

void ring_guard_free(struct ring_guard *g)
{
    if (!g)
        return;
    ring_guard_set(g, NULL);
    thread_mark_free(&g->mark);
}

static bool registered;

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
    registered = make_barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool ring_guard_registered(void)
{
    return registered;
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
    for (struct ring_guard *g = atomic_load(&guards); g; g = g->mark.next)
        if (atomic_load_explicit(&g->ring, memory_order_acquire) == ring)
            return true;
    return false;
}
