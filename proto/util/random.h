/* Random bytes from the kernel: secrets of handles, and what must not be guessed. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>

/**
 * Fills all of it, or returns false: a kernel without the call, or a sandbox that refuses it. Never
 * leave a secret as it was then. Waits only before the kernel's pool is first ready, at boot.
 */
static inline bool random_fill(void *bytes, size_t size)
{
    char *p = bytes;

    while (size > 0) {
        ssize_t n = getrandom(p, size, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}
