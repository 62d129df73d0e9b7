/* Bytes of an allocation as a client has them mapped. */
#pragma once

#include <check.h>
#include <sys/mman.h>

#include "daemon/memory/allocation.h"

/** The byte at offset; mapped once more with each call. */
static inline void *memory_at(const struct mem *m, uint64_t offset)
{
    char *map = mmap(NULL, m->pages->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->pages->fd, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_uint_lt(offset, m->pages->size);
    return map + offset;
}
