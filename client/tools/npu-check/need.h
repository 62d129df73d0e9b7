/* Memory of a command: without it, npu-check ends with a message. */
#pragma once

#include <err.h>
#include <stdlib.h>

#define NEED_EXIT 125

/** Zeroed; never NULL. */
static inline void *need_zeroed(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        err(NEED_EXIT, "memory");
    return p;
}

/** As reallocarray(3); never NULL. */
static inline void *need_array(void *old, size_t n, size_t size)
{
    void *p = reallocarray(old, n ? n : 1, size ? size : 1);

    if (!p)
        err(NEED_EXIT, "memory");
    return p;
}

/** Doubles an array of *size elements that holds n when it is full. The new part is not set. */
static inline void *need_room(void *list, size_t n, size_t *size, size_t element)
{
    if (n < *size)
        return list;
    *size = *size ? *size * 2 : 16;
    return need_array(list, *size, element);
}
