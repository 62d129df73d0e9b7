#include "client/memory/memory_lock.h"

#include <errno.h>

#include "client/core/lock_order.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define LONG_NS  NSEC_PER_MSEC /* for a change to wait */
#define PAUSE_NS NSEC_PER_MSEC /* at most, of one that looks and lets it pass */

void memory_lock_alone(struct session *s)
{
    struct timespec end;

    lock_order_take(&s->memory_lock);
    if (pthread_rwlock_trywrlock(&s->memory_lock) == 0)
        return;
    clock_gettime(CLOCK_REALTIME, &end); /* as the call has it */
    end = timespec_from_ns((uint64_t)end.tv_sec * NSEC_PER_SEC + (uint64_t)end.tv_nsec + LONG_NS);
    if (pthread_rwlock_timedwrlock(&s->memory_lock, &end) == 0)
        return;
    atomic_fetch_add_explicit(&s->memory_wanted, 1, memory_order_relaxed);
    (pthread_rwlock_wrlock)(&s->memory_lock); /* without the order, which knows of it */
    atomic_fetch_sub_explicit(&s->memory_wanted, 1, memory_order_relaxed);
    futex_wake_all(&s->memory_wanted);
}

void memory_let_pass(struct session *s)
{
    uint32_t wanted = atomic_load_explicit(&s->memory_wanted, memory_order_relaxed);
    struct timespec end = timespec_from_ns(clock_ns() + PAUSE_NS);
    int saved = errno;

    if (wanted != 0)
        futex_wait_until(&s->memory_wanted, wanted, &end);
    errno = saved;
}
