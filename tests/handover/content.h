/*
 * What is written into data that is handed over: each 8 bytes follow from a seed and their offset.
 * Of long data only some words are written and looked at, among them both ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CONTENT_ALL   8192u /* up to here each byte counts */
#define CONTENT_WORDS 256u  /* of what is longer */

static inline uint64_t content_word(uint64_t seed, size_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 29;
}

static inline size_t content_step(size_t size)
{
    return size <= CONTENT_ALL ? 1 : size / 8 / CONTENT_WORDS;
}

/* Bytes of word i of data with this size. */
static inline size_t content_bytes(size_t size, size_t i)
{
    return size - i * 8 < 8 ? size - i * 8 : 8;
}

static inline size_t content_last(size_t size)
{
    return (size - 1) / 8;
}

static inline void content_put(uint8_t *data, size_t size, uint64_t seed, size_t i)
{
    uint64_t word = content_word(seed, i);

    memcpy(data + i * 8, &word, content_bytes(size, i));
}

static inline void content_fill(void *data, size_t size, uint64_t seed)
{
    for (size_t i = 0; i <= content_last(size); i += content_step(size))
        content_put(data, size, seed, i);
    content_put(data, size, seed, content_last(size));
}

static inline bool content_is(const uint8_t *data, size_t size, uint64_t seed, size_t i)
{
    uint64_t word = content_word(seed, i);

    return memcmp(data + i * 8, &word, content_bytes(size, i)) == 0;
}

/** Offset of the first byte group that is wrong in the first `have` bytes, or -1. */
static inline int64_t content_wrong(const void *data, size_t have, size_t size, uint64_t seed)
{
    for (size_t i = 0; i <= content_last(size); i += content_step(size))
        if ((i + 1) * 8 <= have && !content_is(data, size, seed, i))
            return (int64_t)(i * 8);
    if (have >= size && !content_is(data, size, seed, content_last(size)))
        return (int64_t)(content_last(size) * 8);
    return -1;
}
