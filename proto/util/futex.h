/* Futexes on memory that may be shared between processes. */
#pragma once

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Never FUTEX_PRIVATE: waiter and waker are different processes with different mappings. */

/**
 * Sleep while *word == seen, until woken or until the absolute CLOCK_MONOTONIC deadline (NULL: no
 * limit). Returns 0 when woken or when the word had changed already, -ETIMEDOUT, or -EINTR after a
 * signal. Spurious returns of 0 are normal: the caller tests its condition again.
 */
static inline int futex_wait_until(_Atomic uint32_t *word, uint32_t seen,
                                   const struct timespec *deadline)
{
    /* WAIT_BITSET takes an absolute timeout: a wait restarted after a signal is not prolonged. */
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline, NULL, FUTEX_BITSET_MATCH_ANY) ==
            0 ||
        errno == EAGAIN)
        return 0;
    return -errno;
}

/** Wake all sleepers on word. Preserves errno; a word without sleepers is no error. */
static inline void futex_wake_all(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

/** Wake at most max of them, those first that have slept longest. How many it has woken. */
static inline unsigned futex_wake_some(_Atomic uint32_t *word, unsigned max)
{
    int saved = errno;
    long n = syscall(SYS_futex, word, FUTEX_WAKE, max, NULL, NULL, 0);

    errno = saved;
    return n < 0 ? 0 : (unsigned)n;
}

/** Wake one of them. */
static inline void futex_wake_one(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    errno = saved;
}
