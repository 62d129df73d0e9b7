#include "daemon/base/file_pages.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE         ((size_t)4096)
#define WINDOW_FIRST 16u /* pages looked at together: what a client can make a look cost */
#define WINDOW_MAX   512u

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* Linux 6.5 */
#endif

struct cache_range {
    uint64_t from, bytes;
};

struct cache_counts {
    uint64_t cached, dirty, written_back, evicted, recently_evicted;
};

/* A hole reads as zeros, and is none the less a hole afterwards. */
static bool page_is_zero(int fd, size_t at)
{
    uint64_t words[PAGE / sizeof(uint64_t)], any = 0;

    if (pread(fd, words, PAGE, (off_t)at) != (ssize_t)PAGE)
        return false;
    for (size_t i = 0; i < PAGE / sizeof(words[0]); i++)
        any |= words[i];
    return any == 0;
}

/* Without cachestat(). */
static bool find_not_zero(int fd, size_t *from, size_t *to)
{
    size_t at = *from;

    while (at < *to && page_is_zero(fd, at))
        at += PAGE;
    if (at == *to)
        return false;
    *from = at;
    while (at < *to && !page_is_zero(fd, at))
        at += PAGE;
    *to = at;
    return true;
}

/* Pages of [from, to) that are memory, or swapped out; -1: the kernel does not say. */
static ssize_t count_pages(int fd, size_t from, size_t to)
{
    struct cache_range range = {from, to - from};
    struct cache_counts counts = {0};

    if (syscall(SYS_cachestat, fd, &range, &counts, 0) < 0)
        return -1;
    return (ssize_t)(counts.cached + counts.evicted);
}

/*
 * None of [*from, *to) was resident. What was written is swapped out, or has come meanwhile. False:
 * nothing was. True: [*from, *to) is a part of it that was written throughout, the first that
 * halving finds.
 */
static bool find_swapped_out(int fd, size_t *from, size_t *to)
{
    ssize_t n = count_pages(fd, *from, *to);

    if (n < 0)
        return find_not_zero(fd, from, to);
    if (n == 0)
        return false;
    while ((size_t)n < (*to - *from) / PAGE) {
        size_t middle = *from + (*to - *from) / PAGE / 2 * PAGE;

        n = count_pages(fd, *from, middle);
        if (n > 0) {
            *to = middle;
        } else {
            *from = middle;
            n = count_pages(fd, middle, *to);
        }
        if (n <= 0) /* a client makes holes there: any answer is as good */
            return true;
    }
    return true;
}

static size_t count_same(const unsigned char *resident, size_t from, size_t n)
{
    size_t at = from;

    while (at < n && (resident[at] & 1) == (resident[from] & 1))
        at++;
    return at - from;
}

bool file_pages_next(int fd, void *map, size_t end, size_t *from, size_t *to)
{
    unsigned char resident[WINDOW_MAX];

    for (size_t window = WINDOW_FIRST; *from < end; window = WINDOW_MAX) {
        size_t n = (end - *from) / PAGE < window ? (end - *from) / PAGE : window, gap, at = *from;

        if (mincore((char *)map + *from, n * PAGE, resident) < 0)
            memset(resident, 1, n * sizeof(resident[0])); /* all of them may be */
        gap = resident[0] & 1 ? 0 : count_same(resident, 0, n);
        *to = *from + gap * PAGE;
        if (gap > 0 && find_swapped_out(fd, &at, to)) {
            *from = at;
            return true;
        }
        *from += gap * PAGE;
        *to = *from;
        if (gap < n) {
            *to += count_same(resident, gap, n) * PAGE;
            return true;
        }
    }
    return false;
}
