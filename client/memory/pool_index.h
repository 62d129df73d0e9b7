/*
 * Blocks of pools that are idle: which is free for a stream, and which may go back.
 *
 * A block waits until the stream on which it was freed has passed the place, and then is ready.
 * Blocks of one stream pass in the order in which they were freed, of whatever pool they are, so
 * that the oldest of each says whether any has. So a call looks at a few streams, and at each block
 * once, however many blocks and pools wait.
 *
 * The lock of the pools is held.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_pool;
struct pool_block;
struct pool_stream;
struct stream_ctrl;

/** Of a session. All zero: no block is idle. */
struct pool_index {
    struct pool_stream *streams; /* on which idle blocks were freed, by control block */
    struct pool_stream *waiting; /* those of them with blocks that wait: looked at in turn */
    uint32_t n_waiting;
    uint64_t freed;               /* how many blocks were, ever */
    struct memory_pool *has_more; /* pools of which a block has become ready: pool_index_next() */
};

#define POOL_INDEX_FEW 4u
#define POOL_INDEX_ALL UINT32_MAX

/** The block is idle, freed at block->freed. False: no memory. */
bool pool_index_add(struct pool_index *index, struct pool_block *block);
void pool_index_remove(struct pool_index *index, struct pool_block *block);

/** See what so many streams have passed; the others have their turn in later calls. */
void pool_index_look(struct pool_index *index, uint32_t streams);

/**
 * The smallest block of the pool, of so many bytes at least, that was freed on the stream with this
 * control block, or, with `any`, that is known to be ready. NULL: there is none.
 */
struct pool_block *pool_index_find(struct pool_index *index, struct memory_pool *pool,
                                   const struct stream_ctrl *ctrl, uint64_t bytes, bool any);

/** A pool of which a block has become ready since it was told last; NULL: there is none. */
struct memory_pool *pool_index_next(struct pool_index *index);
/** The pool goes, and has no idle block. */
void pool_index_forget(struct pool_index *index, struct memory_pool *pool);

/** Any idle block of the pool; NULL: there is none. */
struct pool_block *pool_index_any(const struct memory_pool *pool);
