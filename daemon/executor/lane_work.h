/*
 * The tasks of a lane, one after the other, and the queue that it has for them on each device. A
 * task is over when the library has said so: what goes wrong is the task's own.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/executor/vendor.h"
#include "proto/shm/executor_shm.h"

enum lane_state { LANE_IDLE, LANE_GIVES, LANE_WAITS };

struct lane_work {
    /* While a call of the library is under way, since when. npud looks at it. */
    _Atomic uint64_t *busy_since;
    uint64_t *word;           /* of lane_words(): where words are on their way */
    unsigned char *strip;     /* of STRIP bytes; NULL: none yet */
    unsigned char *arguments; /* of a kernel, of ARGUMENTS_MAX bytes; NULL: none yet */

    pthread_mutex_t lock; /* of what follows */
    enum lane_state state;
    uint32_t device; /* where its task is, but for LANE_IDLE */
    uint64_t number; /* of that */
    /* Of the lane's thread, but for LANE_IDLE. NULL: none yet. */
    struct vendor_lane *queue[EXECUTOR_DEVICES];
    uint64_t asker; /* the request to end the task, which waits for its end; 0: none */
};

/** lane: its number. busy_since: of its line in the page. */
void lane_work_init(struct lane_work *work, unsigned lane, _Atomic uint64_t *busy_since);

/**
 * Do a task: 0, with what was read in *value, or an ACL error. The lane's thread. *asker: the
 * request that is to be answered when npud knows the end of the task; 0: none.
 */
int32_t lane_work_do(struct lane_work *work, const struct executor_task *task, uint64_t *value,
                     uint64_t *asker);

/**
 * The request `asker` wants the end of what the lane does, up to the task of this number. 0: the
 * lane does nothing, or a later one: an npud that has ended meant another one's; or, *later, the
 * thread of the lane answers when that has ended. Or an ACL error. Control thread.
 */
int32_t lane_work_abort(struct lane_work *work, uint64_t to, uint64_t asker, bool *later);

/**
 * The queue on a device that is about to end is given back. 0, or an ACL error: it is in use.
 * Control thread.
 */
int32_t lane_work_leave_device(struct lane_work *work, uint32_t device);
