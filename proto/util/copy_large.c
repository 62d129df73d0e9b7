#include "proto/util/copy_large.h"

#include <stdbool.h>
#include <string.h>

/* A sanitizer checks the whole of a memmove() at once, and each of these stores by itself. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

#include <emmintrin.h>

#define LINE ((size_t)64)

/* dst: of a whole line; a part of it would be merged by reading the rest. */
static inline void copy_line(char *dst, const char *src)
{
    __m128i *to = (__m128i *)(void *)dst;
    const __m128i *from = (const __m128i *)(const void *)src;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);

    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

static bool is_overlap(const char *a, const char *b, size_t n)
{
    return (uintptr_t)a - (uintptr_t)b < n || (uintptr_t)b - (uintptr_t)a < n;
}

void copy_large(void *dst, const void *src, size_t n)
{
    char *to = dst;
    const char *from = src;
    size_t head = -(uintptr_t)to % LINE, done;

    if (n < LINE + head || is_overlap(to, from, n)) {
        memmove(to, from, n);
        return;
    }
    memcpy(to, from, head);
    for (done = head; n - done >= LINE; done += LINE)
        copy_line(to + done, from + done);
    memcpy(to + done, from + done, n - done);
    /* Such stores are not ordered: neither a release nor a locked operation waits for them. */
    _mm_sfence();
}

#else

void copy_large(void *dst, const void *src, size_t n)
{
    memmove(dst, src, n);
}

#endif
