/* Arrays that grow, for callers that can go on without memory. */
#pragma once

#include <stddef.h>

/**
 * Make room for n items of `item` bytes in an array that has room for *size: its size doubles.
 * Returns the array, which may have moved. NULL: no memory, and the array is as it was.
 */
void *array_grow(void *items, size_t *size, size_t n, size_t item);
