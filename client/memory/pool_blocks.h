/*
 * Pools of aclrtMemPoolMallocAsync, and the blocks that they are made of. A block is an allocation
 * of npud's, so that addresses, copies and limits are as for other memory. While the program does
 * not have it, it is in the table of allocations as memory that was freed.
 *
 * A block that was freed on a stream may be had again on that stream at once: what is submitted
 * there comes later. For other streams, and to go back to npud, the stream must have passed the
 * place where it was freed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/memory/alloc.h"
#include "client/memory/pool_index.h"
#include "client/runtime/point.h"
#include "client/runtime/stream.h"
#include "proto/util/slots.h"

struct pool_block {
    struct memory *memory;
    struct memory_pool *pool;
    bool used;          /* the program has it */
    struct point freed; /* if not: the place in the stream where it was freed, ... */
    /* ... and, for pool_index.c, as which one of the pool, among which, and is it passed? */
    uint64_t number;
    struct pool_stream *stream;
    struct pool_block *stream_prev, *stream_next;
    bool ready;
    struct pool_block *prev, *next; /* of the pool, one of: */
};

enum memory_pool_state {
    MEMORY_POOL_ABSENT,
    MEMORY_POOL_USABLE,
    MEMORY_POOL_DESTROYED, /* its handle is dead; it goes with its last block */
};

struct memory_size {
    uint64_t now, high; /* bytes of whole blocks */
};

/* All of it is under memory_pool_lock of the session. */
struct memory_pool {
    struct slot slot; /* in session->memory_pools: the handle */
    enum memory_pool_state state;
    uint32_t device;
    uint64_t max;       /* that it may reserve */
    uint64_t threshold; /* what is idle goes back while it reserves more */
    int32_t reuse[3];   /* by aclrtMemPoolAttr, from the first one on */
    struct memory_size reserved, used;
    struct pool_block *held;    /* used */
    struct pool_block *waiting; /* idle, and its stream has not passed the place, ... */
    struct pool_block *ready;   /* ... or it has, that longest first */
    void *by_size;              /* tsearch(3): the last ones once more */
    bool has_more;              /* it is in session->pool_index->has_more, by: */
    struct memory_pool *prev, *next;
};

/* --- the lock is held --- */

/** Give idle blocks back until the pool reserves no more than this. True: some did. */
bool pool_blocks_trim(struct session *s, const char *function, struct memory_pool *pool,
                      uint64_t bytes);

/**
 * The same down to its threshold, of what is known to be passed; if the pool is destroyed and
 * empty, it ends. Each call does it with its pool, and with two others that have something to give
 * back: because nothing runs when a stream passes a place. NULL: only with others.
 */
void pool_blocks_settle(struct session *s, const char *function, struct memory_pool *pool);

/** The program gets `size` bytes of the pool, for what comes later in s, which is locked. */
int pool_blocks_take(struct memory_pool *pool, struct stream *s, const char *function, size_t size,
                     void **pointer);

/**
 * The program frees what begins at pointer, at this place in s, which is locked. *pool: to which it
 * goes back. 0, or an ACL error.
 */
int pool_blocks_put(struct stream *s, const char *function, void *pointer,
                    struct memory_pool **pool);

/** At the end of the session. The memory is of the table of allocations. */
void pool_blocks_free_all(struct session *s);
