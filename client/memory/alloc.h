/*
 * Allocations of this process, found by any address inside them. Those freed last are found as
 * well, and their addresses belong to nobody else yet: so a call with such an address is refused,
 * where it would read or write what came there since, or fault.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/runtime/session.h"
#include "client/runtime/upcall.h"

struct memory {
    uintptr_t start;
    size_t size; /* what the program asked for */
    size_t mapped;
    bool host;  /* pinned host memory, else device memory */
    bool freed; /* in the table of those: only its addresses are left */
    uint32_t device;
    uint32_t remote; /* npud's slot and generation */
    uint32_t remote_generation;
    struct memory *prev, *next; /* session->freed */
};

/** How a task names a place in memory. */
struct memory_place {
    uint32_t remote;
    uint32_t generation;
    uint64_t offset;
};

/**
 * Where `size` bytes at address are, which must be device memory that the device reaches. 0,
 * ACL_ERROR_RT_PARAM_INVALID, or ACL_ERROR_RT_DRV_INTERNAL_ERROR without
 * aclrtDeviceEnablePeerAccess. name: of the argument, for the sentence.
 */
int memory_device_place(struct session *s, const char *function, uint32_t device, const char *name,
                        const void *address, uint64_t size, struct memory_place *place);

/**
 * Memory of the program, of any kind, that a call reads or writes by itself: do `size` bytes at
 * address stay within the allocation, if it is one of ours? 0, or ACL_ERROR_RT_PARAM_INVALID. name:
 * of the argument, for the sentence.
 */
int memory_check(struct session *s, const char *function, const char *name, const void *address,
                 size_t size);
/**
 * A call has written there by itself: npud is told if streams wait for it. 0, or an ACL error of
 * the request.
 */
int memory_written(struct session *s, const char *function, const void *address, size_t size);

extern const struct part memory_part;
