#include "client/core/interrupt.h"

#include <errno.h>

#include "acl/acl.h"
#include "client/core/api_call.h"
#include "proto/util/clock.h"

__thread aclnpudInterruptCheck interrupt_check;
static __thread void *check_arg;

/*
 * When the thread asks next (CLOCK_MONOTONIC ns), over all its sleeps: what wakes it all the time,
 * but has nothing for it, shall not put that off.
 */
static __thread uint64_t ask_at;

aclError aclnpudSetInterruptCheck(aclnpudInterruptCheck check, void *arg)
{
    interrupt_check = check;
    check_arg = arg;
    return 0;
}

uint64_t interrupt_slice(uint64_t deadline)
{
    uint64_t now = clock_ns();

    /* Just asked, or from an earlier call. */
    if (now > ask_at + INTERRUPT_SLICE_NS)
        ask_at = now + INTERRUPT_SLICE_NS;
    return ask_at < deadline ? ask_at : deadline;
}

static CALLS_PROGRAM bool ask_check(aclnpudInterruptMoment moment)
{
    return interrupt_possible() && interrupt_check(check_arg, moment) != 0;
}

bool interrupt_asked(bool locked)
{
    ask_at = 0;
    return ask_check(locked ? ACLNPUD_INTERRUPT_LOCKED : ACLNPUD_INTERRUPT_SLEEP);
}

bool interrupt_after_callback(void)
{
    return ask_check(ACLNPUD_INTERRUPT_CALLBACK);
}

static struct timespec slice_end(void)
{
    return timespec_from_ns(interrupt_slice(UINT64_MAX));
}

bool interrupt_lock_slow(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) == 0)
        return true;
    for (;;) {
        struct timespec end = slice_end();

        if (pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
            return true;
        if (interrupt_asked(false))
            return false;
    }
}

bool interrupt_take_slow(struct biased_lock *lock)
{
    struct timespec end = {0}; /* mostly it is free, and no clock is read */

    while (!biased_lock_take_until(lock, &end)) {
        if (end.tv_sec != 0 && interrupt_asked(false))
            return false;
        end = slice_end();
    }
    return true;
}

bool interrupt_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline)
{
    struct timespec end;
    bool asked;

    if (!interrupt_possible() && deadline == UINT64_MAX) {
        pthread_cond_wait(cond, mutex);
        return true;
    }
    end = timespec_from_ns(interrupt_possible() ? interrupt_slice(deadline) : deadline);
    if (pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &end) != ETIMEDOUT ||
        !interrupt_possible())
        return true;
    pthread_mutex_unlock(mutex);
    asked = interrupt_asked(false);
    pthread_mutex_lock(mutex);
    return !asked;
}
