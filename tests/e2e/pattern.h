/* Bytes that tell where they are and which pattern they belong to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

static inline unsigned char pattern_at(size_t i, unsigned seed)
{
    return (unsigned char)((i * 2654435761u >> 13) + i + seed);
}

static inline void fill_pattern(void *p, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)p)[i] = pattern_at(i, seed);
}

static inline bool holds_pattern(const void *p, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)p)[i] != pattern_at(i, seed))
            return false;
    return true;
}

static inline bool all_are(const void *p, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)p)[i] != value)
            return false;
    return true;
}
