#include "daemon/base/array.h"

#include <stdlib.h>

#define SIZE_FIRST 64

void *array_grow(void *items, size_t *size, size_t n, size_t item)
{
    size_t bigger = *size ? *size : SIZE_FIRST;

    if (n <= *size)
        return items;
    while (bigger < n)
        bigger *= 2;
    items = reallocarray(items, bigger, item);
    if (items)
        *size = bigger;
    return items;
}

size_t array_lower_bound(const void *items, size_t n, size_t item, const void *key,
                         int (*compare)(const void *item, const void *key))
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (compare((const char *)items + middle * item, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
