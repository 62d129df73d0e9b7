/*
 * Messages on their way to a destination that is full: chains that npud holds, by the refs of their heads, first in, first out. It gives and takes
 * refs, and knows nothing of the buffers. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BACKLOG_MESSAGES 32768u                /* at most */
#define BACKLOG_BYTES    (UINT64_C(256) << 20) /* of data: no further message, once it is that much */

struct backlog_item {
    uint32_t ref;
    uint32_t kib; /* of data, rounded up */
};

/** All zero: empty. */
struct backlog {
    struct backlog_item *item; /* circular */
    uint32_t size;             /* a power of two; 0: none so far */
    uint32_t first, n;
    uint64_t kib; /* of all */
};

/** Does it take no more for now? */
bool backlog_full(const struct backlog *b);

/** Make sure that the next backlog_push() succeeds. False: no memory. */
bool backlog_reserve(struct backlog *b);

/** Append a message with so many bytes of data; backlog_reserve() has said yes. */
void backlog_push(struct backlog *b, uint32_t ref, uint64_t bytes);

/** The first message, or 0: it is empty. */
uint32_t backlog_first(const struct backlog *b);

/** Take the first one away. The last one takes the memory along. */
void backlog_pop(struct backlog *b);

/** It is empty, and gives back what backlog_reserve() took. */
void backlog_deinit(struct backlog *b);

/** The item at this place, counted from the first one; below n. */
const struct backlog_item *backlog_at(const struct backlog *b, uint32_t i);
