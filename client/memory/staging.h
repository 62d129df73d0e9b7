/*
 * Buffers of copies that take their source at the call (ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE): the
 * source is copied into one now, and the copy from there runs in its turn. They are pinned memory
 * of this library's own, used again when the stream that they were for has passed the copy.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/memory/alloc.h"
#include "client/runtime/stream.h"

struct staging {
    struct memory memory;
    struct stream_ctrl *ctrl; /* of the stream that it was for */
    uint64_t position;        /* of the copy there */
    /* session->staging: used longest ago first, so the first are the likeliest to be idle */
    struct staging *prev, *next;
};

/** A buffer of `count` bytes at least, an idle one or a new one. NULL with *error set. */
struct staging *staging_take(struct stream *s, const char *function, size_t count, int *error);

/** Hand it back, with ctrl and position set. */
void staging_add(struct session *session, struct staging *b);

/** Free idle buffers until at most `bytes` are left in all, or only such as are in use. */
void staging_trim(struct session *session, const char *function, size_t bytes);

/** Unmap everything, at the end of the session. */
void staging_forget_all(struct session *session);
