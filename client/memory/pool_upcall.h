/*
 * What client/memory/alloc.c calls in pools of memory, which stand above it:
 * client/memory/pool_blocks.c implements it. These take the lock of the pools.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct context;
struct memory;
struct session;

/**
 * memory_make(), and once more if device memory is short and pools could give some back.
 */
int pool_blocks_new_memory(struct context *c, const char *function, size_t size, bool host,
                           void **address);

/** aclrtFree has taken m out of the table: if it is of a pool, the pool forgets it. */
void pool_blocks_detach(struct session *s, struct memory *m);

/** All memory of the device is about to go: its pools go, and their blocks are as other memory. */
void pool_blocks_forget_device(struct session *s, uint32_t device);
