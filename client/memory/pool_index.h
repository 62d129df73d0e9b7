/*
 * Blocks of a pool that are idle: which is free for a stream, and which may go back.
 *
 * A block waits until the stream on which it was freed has passed the place, and then is ready.
 * Blocks of one stream pass in the order in which they were freed, so that the oldest of each says
 * whether any has. So a call looks at a few streams, and at each block once, however many wait.
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

/** A member of the pool. All zero: no block is idle. */
struct pool_index {
    struct pool_stream *streams; /* on which idle blocks were freed, by control block */
    struct pool_stream *waiting; /* those of them with blocks that wait: looked at in turn */
    uint32_t n_waiting;
    void *by_size;            /* tsearch(3): blocks that are ready */
    struct pool_block *ready; /* the same, that longest first */
    uint64_t freed;           /* how many blocks were, ever */
};

/** The block is idle, freed at block->freed. False: no memory. */
bool pool_index_add(struct pool_index *index, struct pool_block *block);
void pool_index_remove(struct pool_index *index, struct pool_block *block);

/**
 * The smallest block of so many bytes at least that was freed on the stream with this control
 * block, or, with `any`, that is ready. NULL: there is none.
 */
struct pool_block *pool_index_find(struct pool_index *index, const struct stream_ctrl *ctrl,
                                   uint64_t bytes, bool any);

/**
 * A block that is ready, that longest first; NULL: there is none, or, unless `all` streams are
 * asked, a later call finds it.
 */
struct pool_block *pool_index_ready(struct pool_index *index, bool all);

/** Any idle block; NULL: there is none. */
struct pool_block *pool_index_any(const struct pool_index *index);
