#include "client/core/biased_lock.h"

#include <errno.h>

#include "client/core/ring_guard.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

__thread uint64_t biased_lock_self = BIASED_STRANGER;

static _Atomic uint64_t latest_id = BIASED_STRANGER;
static _Atomic bool forbidden; /* membarrier(2), though it was allowed at first */

/* False: the deadline has passed. */
static bool sleep_while(_Atomic uint32_t *word, uint32_t seen, const struct timespec *deadline)
{
    int saved = errno;
    int r = futex_wait_until(word, seen, deadline);

    errno = saved;
    return r != -ETIMEDOUT;
}

static bool may_bias(void)
{
#ifdef __SANITIZE_THREAD__ /* does not know membarrier(2) */
    return false;
#else
    return ring_guard_registered() && !atomic_load_explicit(&forbidden, memory_order_relaxed);
#endif
}

/* The calling thread comes first: it becomes the owner, and takes the lock as such. */
static bool claim_bias(struct biased_lock *l, uint64_t self)
{
    uint64_t owner = BIASED_NOT_YET;
    bool biased = may_bias();

    if (atomic_load_explicit(&l->owner, memory_order_relaxed) != BIASED_NOT_YET)
        return false;
    if (self == BIASED_STRANGER && biased)
        self = biased_lock_self =
            atomic_fetch_add_explicit(&latest_id, 1, memory_order_relaxed) + 1;
    return atomic_compare_exchange_strong_explicit(&l->owner, &owner,
                                                   biased ? self : BIASED_REVOKED,
                                                   memory_order_relaxed, memory_order_relaxed) &&
           biased && biased_lock_take_biased(l, self);
}

/* Each thread gets to a point where it sees the caller's stores, and has shown its own. */
static void make_barrier(void)
{
    static _Atomic uint32_t never;
    struct timespec end;

    if (ring_guard_barrier())
        return;
    atomic_store_explicit(&forbidden, true, memory_order_relaxed);
    end = timespec_from_ns(clock_ns() + REVOKE_BLIND_NS);
    while (sleep_while(&never, 0, &end))
        ;
}

static bool take_word(struct biased_lock *l, const struct timespec *deadline)
{
    uint32_t word = 0;

    if (atomic_compare_exchange_strong_explicit(&l->word, &word, 1, memory_order_acquire,
                                                memory_order_relaxed))
        return true;
    while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
        if (!sleep_while(&l->word, 2, deadline))
            return false;
    return true;
}

static void give_word(struct biased_lock *l)
{
    if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
        futex_wake_one(&l->word);
}

/* With `word`. False: the deadline has passed. */
static bool await_owner(struct biased_lock *l, const struct timespec *deadline)
{
    if (!(atomic_load_explicit(&l->owner, memory_order_relaxed) & BIASED_REVOKED)) {
        atomic_fetch_or_explicit(&l->owner, BIASED_REVOKED, memory_order_relaxed);
        make_barrier();
    }
    while (atomic_load_explicit(&l->held, memory_order_acquire) != 0)
        if (!sleep_while(&l->held, 1, deadline))
            return false;
    return true;
}

bool biased_lock_take_slow(struct biased_lock *l, uint64_t self, const struct timespec *deadline)
{
    if (claim_bias(l, self))
        return true;
    if (!take_word(l, deadline))
        return false;
    if (await_owner(l, deadline))
        return true;
    give_word(l);
    return false;
}

void biased_lock_give_slow(struct biased_lock *l, uint64_t self)
{
    bool is_owner =
        atomic_load_explicit(&l->owner, memory_order_relaxed) == (self | BIASED_REVOKED);

    if (is_owner && atomic_load_explicit(&l->held, memory_order_relaxed) != 0)
        biased_lock_retreat(l);
    else
        give_word(l);
}

void biased_lock_wake(struct biased_lock *l)
{
    futex_wake_one(&l->held);
}

void biased_lock_retreat(struct biased_lock *l)
{
    atomic_store_explicit(&l->held, 0, memory_order_release);
    biased_lock_wake(l);
}
