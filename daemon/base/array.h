/* Arrays that grow, for callers that can go on without memory, and arrays that are sorted. */
#pragma once

#include <stddef.h>

/**
 * Make room for n items of `item` bytes in an array that has room for *size: its size doubles.
 * Returns the array, which may have moved. NULL: no memory, and the array is as it was.
 */
void *array_grow(void *items, size_t *size, size_t n, size_t item);

/**
 * The index of the first of n items of `item` bytes that is not below the key; n: all are. The
 * items are sorted by compare, which is called with an item and the key.
 */
size_t array_lower_bound(const void *items, size_t n, size_t item, const void *key,
                         int (*compare)(const void *item, const void *key));
