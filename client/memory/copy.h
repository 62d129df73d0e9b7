/* What copies of all forms have in common. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "acl/acl.h"
#include "client/memory/place.h"
#include "client/memory/staging.h"
#include "client/runtime/stream.h"

/**
 * The two places of a copy of `count` bytes, whose devices reach each other. 0, or as place_find()
 * and place_check_peer_devices().
 */
int copy_find(struct session *s, const char *function, void *dst, const void *src, size_t count,
              struct place *to, struct place *from);

struct context;

/** What aclrtMemcpy() does once its arguments are checked. 0, or an ACL error. */
int copy_blocking(struct context *c, const char *function, void *dst, const void *src,
                  size_t count);

/** The same for aclrtMemcpyAsync(). The stream is locked. */
int copy_async(struct stream *s, const char *function, void *dst, const void *src, size_t count,
               aclrtMemcpyKind kind);

/** Is the copy a task of an engine, or made by the calling thread? */
static inline bool copy_is_task(const struct place *to, const struct place *from)
{
    return place_row(to)->engine & place_row(from)->engine;
}

/*
 * Is it, to a copy of this kind, memory of a device? What is registered has a device's address,
 * too, which is the same: the kind tells which of the two is meant.
 */
static inline bool copy_to_device(struct session *s, const struct place *to, aclrtMemcpyKind kind)
{
    return place_row(to)->device ||
           ((kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
             kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) &&
            place_is_registered(s, to, 1));
}

static inline bool copy_from_device(struct session *s, const struct place *from,
                                    aclrtMemcpyKind kind)
{
    return place_row(from)->device ||
           ((kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE) &&
            place_is_registered(s, from, 1));
}

/**
 * Copy in the order of the stream: by a task, of an engine or of the library's thread, or after a
 * wait for the stream by hand. Locked. 0, or
 * an ACL error.
 */
int copy_in_order(struct stream *s, const char *function, const struct place *to,
                  const struct place *from, size_t count);

/** The bytes that the buffer was taken for. */
static inline struct place copy_staged(const struct staging *b)
{
    return (struct place){.kind = PLACE_PINNED,
                          .memory = b->memory,
                          .address = (char *)b->memory.mapped.start + b->at,
                          .offset = b->at};
}

/**
 * The source, which the calling thread reaches, is taken now; the copy runs in its turn. Locked. 0,
 * or an ACL error.
 */
int copy_buffered(struct stream *s, const char *function, const struct place *to,
                  const struct place *from, size_t count);
