/* Points in streams, and what uses an object there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/stream_shm.h"

/**
 * A captured point: complete when ctrl->done >= position, or at once when ctrl is NULL. The control
 * block is type-stable memory of the session, and positions of a slot never go back: a stream that
 * is gone reads as complete.
 */
struct point {
    struct stream_ctrl *ctrl;
    uint64_t position;
};

/* an engine needs the event there: npud keeps it until the stream has passed */
#define USE_FENCE 1u
/* a stream wait, for aclrtQueryEventWaitStatus */
#define USE_WAITS 2u

/** A place in a stream that uses the event: npud must not give its slot out again before that has
 * passed. */
struct use {
    struct point point;
    uint32_t stream; /* npud's slot */
    unsigned how;
};

static inline bool point_passed(const struct point *p)
{
    return !p->ctrl || atomic_load_explicit(&p->ctrl->done, memory_order_acquire) >= p->position;
}
