/*
 * Buffers of copies that take their source at the call (ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE): the
 * source is copied into one now, and the copy from there runs in its turn. They are pinned memory
 * of this library's own, used again when the stream that they were for has passed the copy.
 *
 * Small sources of one stream share a buffer: each is an allocation of npud's, with a descriptor
 * there, and a program may have thousands of copies on their way. A call looks at a few buffers,
 * however many there are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "client/memory/alloc.h"
#include "client/runtime/stream.h"

struct staging {
    struct memory memory;
    struct stream_ctrl *ctrl; /* of the stream that it was for */
    uint64_t position;        /* of the last copy there */
    size_t at;                /* where the bytes begin that it was taken for */
    size_t used;              /* up to here it is in use by copies before `position` */
    /* session->staging: looked at longest ago first, so the first are the likeliest to be idle */
    struct staging *prev, *next;
    UT_hash_handle hh; /* session->staging_open, by ctrl; no table: it is not there */
};

/** A buffer with room for `count` bytes, or a new one. NULL with *error set. */
struct staging *staging_take(struct stream *s, const char *function, size_t count, int *error);

/** Hand it back, with ctrl and position set. */
void staging_add(struct session *session, struct staging *b);

/**
 * Free idle buffers until at most `bytes` are left in all. With 0, all that are idle; else a few at
 * a time.
 */
void staging_trim(struct session *session, const char *function, size_t bytes);

/** Unmap everything, at the end of the session. */
void staging_forget_all(struct session *session);
