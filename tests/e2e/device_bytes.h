/* What is in device memory, for tests: a process may not reach that of strict devices by itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/common/harness.h"

/* Through pinned memory, so that the library needs no buffers of its own, which npud counts. */
static inline void device_copy(void *to, const void *from, size_t size, bool writes)
{
    void *pinned;

    OK(aclrtMallocHost(&pinned, size));
    if (writes)
        memcpy(pinned, from, size);
    OK(aclrtMemcpy(writes ? to : pinned, size, writes ? pinned : from, size, ACL_MEMCPY_DEFAULT));
    if (!writes)
        memcpy(to, pinned, size);
    OK(aclrtFreeHost(pinned));
}

/** Read `size` bytes at any address. */
static inline void device_get(void *to, const void *at, size_t size)
{
    device_copy(to, at, size, false);
}

static inline void device_put(void *at, const void *bytes, size_t size)
{
    device_copy(at, bytes, size, true);
}

/** The same as device_get(), in memory that is there until the process ends. */
static inline void *device_bytes(const void *at, size_t size)
{
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(copy, MAP_FAILED);
    device_get(copy, at, size);
    return copy;
}

static inline unsigned char device_byte(const void *at)
{
    unsigned char byte;

    device_get(&byte, at, 1);
    return byte;
}

static inline uint64_t device_word(const void *at)
{
    uint64_t word;

    device_get(&word, at, sizeof(word));
    return word;
}
