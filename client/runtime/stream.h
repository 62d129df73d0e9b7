/*
 * Streams, the library's side: submission into the ring. See proto/shm/stream_shm.h and
 * proto/shm/doorbell.h.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"
#include "client/check/checked.h"
#include "client/core/biased_lock.h"
#include "client/runtime/session.h"
#include "client/runtime/stream_callbacks.h"
#include "client/core/thread.h"
#include "client/core/upcall.h"
#include "proto/util/slots.h"
#include "proto/shm/stream_shm.h"

struct context;

#define STREAM_PRIORITY_LEAST 7

#define STREAM_STAMPS 2 /* that a profile puts beside a task: before it, and behind it */

/*
 * The life of a stream. The handle dies while the stream is LEAVING, after the state callbacks and
 * before the wait for its work. The stream stays one of its device and context until its end is
 * over: synchronising, aborting and resetting count it, because its tasks still run.
 */
enum stream_phase {
    STREAM_ABSENT, /* the slot holds no stream */
    STREAM_USABLE,
    STREAM_LEAVING, /* a thread (leaver) destroys it; its tasks may go on */
    STREAM_ENDING,  /* its tasks are over; npud may give the control block to another stream */
};

enum stream_special {
    STREAM_DEFAULT = 1,  /* its tasks have no ids that programs ask for */
    STREAM_CHECKED = 2,  /* a checked process writes down what it is given */
    STREAM_PROFILED = 4, /* the times of its tasks are collected: client/profile/profile.h */
    STREAM_CAPTURES = 8, /* it records, or did: client/capture */
    STREAM_UPDATES = 16, /* what it is given replaces tasks of a group: client/capture */
};

struct stream {
    struct slot slot; /* in session->streams: the handle. Not npud's slot. */
    /*
     * Atomic is what calls read without a lock, of a stream that another thread may be destroying:
     * the slot's next stream may have written it already. Such a call looks afterwards whether the
     * stream is still the one that was meant. The order of plain assignments is what makes that
     * look tell: no value of the next stream is seen with the tag of this one.
     */
    struct session *_Atomic session;
    struct context *_Atomic context;
    _Atomic uint32_t device;
    uint32_t remote; /* npud's slot */
    _Atomic int32_t id;
    uint32_t priority;
    _Atomic uint32_t flags;
    bool is_default;
    /* Submissions look here once, for what most streams are not: is_default, or written down. */
    uint8_t special;               /* enum stream_special, or-ed; under lock */
    struct graph *_Atomic capture; /* for which it records, or NULL; under captures.lock */
    uint32_t capture_branch;
    struct group_update *update; /* while STREAM_UPDATES; under lock */
    struct graph *model;         /* to which it is bound by hand, or NULL; under lock */
    _Atomic int phase;           /* enum stream_phase; written under session->lock */
    pthread_t leaver;            /* from LEAVING on; under session->lock */
    uint32_t overflow_check;     /* attributes; under lock */
    uint32_t custom_tag;
    uint32_t cache_op_info;
    uint32_t launch_blocking;
    uint32_t nonblocking;                   /* how deep; under lock */
    _Atomic uint32_t res_limit[RES_LIMITS]; /* 0: not set */
    struct stream_ctrl *_Atomic ctrl;
    struct task *ring;
    uint32_t depth;
    /*
     * So many entries may be taken when a task comes: `depth`, or STREAM_STAMPS less, so that there
     * is room for what the profile puts beside it; under lock
     */
    uint32_t room;
    struct doorbell *bell;
    int doorbell;
    /* Not 0: what is submitted is refused with this code. Written under session->abort_lock. */
    _Atomic int32_t aborting;
    struct biased_lock lock; /* submission order; never initialised anew, see struct event */
    uint64_t tail;           /* under lock; ctrl->tail is a copy of it */
    uint64_t first;          /* constant: what tail was at first */
    uint32_t implicit;       /* under lock: see stream_count_implicit() */
    uint16_t implicit_run;   /* of them since the last task */
    /* under lock: a past value of ctrl->done, to look at that only when it matters */
    uint64_t done_seen;
    struct callbacks callbacks;
    struct stream_profile *profile; /* of STREAM_PROFILED, else NULL; under lock */
};

/** Make a stream in a context. Caller holds session->lock. */
int stream_new(struct context *c, const char *function, uint32_t priority, uint32_t flags,
               bool is_default, struct stream **sp);

/** What a call without flags gets. */
#define STREAM_FLAGS_DEFAULT (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC)

/** A stream for the program, in the current context. 0 with *handle, or an ACL error. */
int stream_create(const char *function, uint32_t priority, uint32_t flags, aclrtStream *handle);

/** The same for one stream of the current context; NULL: the default stream. */
int stream_synchronize(const char *function, aclrtStream handle, int32_t timeout);

/**
 * Wait for all streams of this process on the current device: `timeout` ms, -1: no limit. 0, or the
 * first error.
 */
int stream_synchronize_device(const char *function, int32_t timeout);

/** Shall what launches on it return when it is done: stream_synchronize() it then? Locked. */
bool stream_launch_blocks(struct stream *s);

/** Synchronise it, if it does. */
int stream_end_launch(const char *function, aclrtStream handle);

/**
 * Next stream after *cursor (start with 0) whose tasks are not over, or NULL: also one whose handle
 * is dead because a thread destroys it. Caller holds session->lock.
 */
struct stream *stream_next(struct session *session, uint32_t *cursor);

/**
 * Does s still stand for the stream that had this tag, and is its control block still that
 * stream's?
 */
bool stream_is(const struct stream *s, uint32_t tag);

/**
 * Let all streams of a context that is ending finish and go, and wait for those that other threads
 * are destroying. 0, or why the first that did not could not; 507014, without a sentence: a kernel
 * ran for longer than c->kernel_ns, and was ended with all that was queued.
 */
int stream_destroy_all_of(struct context *c, const char *function);

/**
 * The stream that a submitting call means: handle, or the default stream for NULL; of the current
 * context. Returns it locked, or NULL with *error set (forked, 107002, 107017, 107003, npud gone).
 */
struct stream *stream_lock(const char *function, void *handle, int *error);
static inline void stream_unlock(struct stream *s)
{
    biased_lock_give(&s->lock);
}

/** The same without locking, and for a stream of any context: synchronise and query. */
struct stream *stream_find(const char *function, void *handle, int *error);
/** And its tag, which says later whether it is still that stream: stream_is(). */
struct stream *stream_find_tag(const char *function, void *handle, uint32_t *tag, int *error);

/**
 * The same, and an explicit stream needs no context: what is only about the stream as an object.
 */
struct stream *stream_find_anywhere(const char *function, void *handle, int *error);

/**
 * What npud says of the stream's device: DOORBELL_FREE, DOORBELL_STRICT, or the error code of its
 * loss.
 */
static inline uint32_t stream_mode(const struct stream *s)
{
    return atomic_load_explicit(&s->bell->mode, memory_order_relaxed);
}

/** For the profile, in its hooks: put a TASK_NOP_TIME, for which there is room. Locked. */
void stream_put_stamp(struct stream *s);

/**
 * Nothing outstanding, and nothing is recorded: what is submitted now would run at once, and need
 * not be a task. Locked.
 */
static inline bool stream_idle(const struct stream *s)
{
    return stream_mode(s) == DOORBELL_FREE && !(s->special & STREAM_CAPTURES) &&
           atomic_load_explicit(&s->ctrl->done, memory_order_acquire) == s->tail;
}

/** Does it record what it is given, in place of executing it? Locked. */
static inline bool stream_captures(struct stream *s)
{
    return __builtin_expect(s->special & STREAM_CAPTURES, 0) && upcalls->capture_has(s);
}

/**
 * May anything be submitted? 0, or why not: npud is gone, the device is lost, the context has
 * stopped, an abort is in progress. For submissions that need no task. Locked.
 */
int stream_check(struct stream *s, const char *function);

/**
 * stream_check(), and wait until the ring has room for a task. Locked, and stays so: calls
 * that come later are behind this one in submission order.
 */
int stream_reserve(struct stream *s, const char *function);

/** The same for n tasks, which follow each other under the same hold of the lock. */
int stream_reserve_tasks(struct stream *s, const char *function, uint32_t n);

/** Its context has stopped at a failure: nothing that is not done will be. */
static inline bool stream_stopped(const struct stream *s)
{
    return __builtin_expect(atomic_load_explicit(&s->ctrl->stopped, memory_order_acquire) != 0, 0);
}

/** The code of that failure, with its sentence. The stream may be gone meanwhile. */
int stream_error_stopped(const struct stream_ctrl *ctrl, const char *function)
    __attribute__((cold));

/** The same for a value of `stopped` that was read before. */
int stream_error_stopped_by(const struct stream_ctrl *ctrl, uint64_t stopped, const char *function)
    __attribute__((cold));

/** Its name in what a checked process writes down; CHECK_NO_STREAM: it is the library's own. */
uint64_t stream_checked_name(const struct stream *s) __attribute__((cold));

/** The handle is of no stream that is there: 107017, with its sentence. */
int stream_error_unknown(const char *function, const void *handle) __attribute__((cold));

/** It is of another context than the current one: 107003, with its sentence. */
int stream_error_foreign(const struct stream *s, const struct context *current,
                         const char *function) __attribute__((cold));

/**
 * A task of stream id failed with this word of ctrl->error: its code, with a sentence. The stream
 * may be gone meanwhile.
 */
int stream_error_failed(const struct stream_ctrl *ctrl, int32_t id, const char *function,
                        uint64_t error) __attribute__((cold));

/** What was or would be submitted is discarded: code, with its sentence. */
int stream_error_aborted(const char *function, int32_t code) __attribute__((cold));

/**
 * What the calling thread has submitted is in force without a task: it has an id all the same, and
 * the next task the one after it. Locked.
 */
static inline void stream_count_implicit(struct stream *s)
{
    if (s->is_default)
        return;
    thread_self()->last_task = (uint32_t)s->tail + s->implicit;
    /* More than this between two tasks, npud could not tell: they share an id. */
    if (s->implicit_run == UINT16_MAX)
        return;
    s->implicit_run++;
    s->implicit++;
}

/**
 * The outcome of a wait with s->aborting to leave for: r as wait_position_or() returns it. 0, or
 * why nothing may be submitted. Locked.
 */
int stream_waited(struct stream *s, const char *function, int r);

/** Queue a task, after stream_reserve() or waiting for room by itself. Locked. 0 or the error of a
 * lost npud or broken stream. */
int stream_submit(struct stream *s, const char *function, struct task *task);

/**
 * The same after stream_reserve(), under the same hold of the lock: there is room, and the task is
 * not refused, also if an abort has begun meanwhile. Locked.
 */
void stream_submit_reserved(struct stream *s, struct task *task);

/**
 * Wait until everything that was submitted is done, whatever came of it. Locked, and stays so. 0,
 * or as stream_check(), before the wait or after it.
 */
int stream_drain(struct stream *s, const char *function);
