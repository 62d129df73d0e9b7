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
