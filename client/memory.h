/* Allocations of this process, found by any address inside them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/session.h"

struct memory {
    uintptr_t start;
    size_t size; /* what the program asked for */
    size_t mapped;
    bool host; /* pinned host memory, else device memory */
    uint32_t device;
    uint32_t remote; /* npud's slot and generation */
    uint32_t remote_generation;
};

/** The last context on device is gone: everything allocated there goes too. */
void memory_release_device(struct session *s, uint32_t device);

/** Unmap everything, at the end of the session. */
void memory_forget_all(struct session *s);
