/*
 * Streams, npud's side.
 *
 * Owner: made and destroyed by the control thread. While it lives, everything but the constant part
 * belongs to the engine of its device and is touched under that engine's lock; `done` alone may be
 * read by any thread (other engines park streams on it).
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/core/backend.h"
#include "daemon/core/cause.h"
#include "daemon/core/device.h"
#include "daemon/base/timers.h"
#include "daemon/core/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/kept/context_record.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/stream_record.h"
#include "proto/util/slots.h"
#include "proto/shm/stream_shm.h"

struct kept_cell;
struct mem;
struct server;
struct session;
struct attach;

/*
 * IDLE -> ACTIVE when its doorbell bit is seen; ACTIVE -> IDLE when it had no task for a while.
 * ACTIVE -> PARKED or STUCK when its task cannot go on; back when what it waits for has come
 * (engine_unpark()). Any -> HELD by stream_hold(), -> IDLE by stream_abort() alone.
 */
enum __attribute__((packed))
stream_run {             /* a byte: the stream's hot lines are full */
             RUN_IDLE,   /* not watched: waits for its doorbell bit */
             RUN_ACTIVE, /* in attach->active: has tasks, or had some a moment ago */
             RUN_PARKED, /* waits for something, or for a point in time, or for both */
             RUN_STUCK,  /* in attach->stuck: its failure finds no room in the exception ring */
             RUN_HELD,   /* waits for the client to say which tasks of it were discarded */
};

/*
 * What aborts have discarded in a slot, the latest last: a stream whose wait was queued before the
 * abort may come to it later. Kept until the session ends, as positions of a slot never go back.
 */
struct discards {
    struct kept kept;
    struct session *session;
    uint32_t slot;
    struct discards_kept *live;
};

/**
 * The streams of one context of a session on one device; goes with the last of them. Made and freed
 * by the control thread; the rest under the lock of the device's engine.
 */
struct context {
    struct kept kept;
    struct attach *attach;
    uint32_t number;        /* the client's choice */
    bool stop;              /* failure mode */
    _Atomic uint64_t *end;  /* the failure that has stopped it: stream_error_make(); 0: none */
    struct stream *streams; /* by context_prev, context_next */
    struct context *next;   /* attach->contexts */
};

/** Part of an allocation's list of waiters that is still to be gone through: engine/value.h. */
struct value_range {
    uint64_t next, last;
};

/**
 * The graph that a stream executes, or is to execute next: engine/graph.c. It is a stream's only
 * while there is one: few streams ever have one, and each session pays for its streams.
 */
struct graph_run {
    struct mem *memory; /* with the list */
    struct work_place list;
    uint64_t base, last;
    uint32_t count, calls;
    uint32_t thread; /* that has submitted it */
    uint32_t next;   /* where a jump goes; UINT32_MAX: to the task behind */
    uint32_t word;   /* of functions of the program */
    int64_t left;    /* what a jump compares, ... */
    bool has_left;   /* ... and is read already */
    bool passes;     /* a task has failed: the rest is passed over */
};

/*
 * Beside its record (kept/stream_record.h). What each task uses stands in the first two cache
 * lines.
 */
struct stream {
    struct slot slot; /* in session->streams */

    /* constant while it lives */
    uint32_t depth;
    struct session *session;
    struct attach *attach;
    struct stream_kept *live; /* of its slot: what outlives npud; core/arena_kept.c moves it */
    struct stream_ctrl *ctrl; /* shared, hostile */
    struct task *ring;        /* shared, hostile */
    uint32_t id;              /* slot in device->stream_ids */

    /* why its context executes nothing any more; 0: it does. Written under the engine's lock */
    _Atomic int32_t stopped;

    /* engine */
    enum stream_run run;
    bool rung;        /* active because the doorbell said so, and no task was found so far */
    bool in_inbox;    /* under the engine's inbox lock, so not one of the bits */
    bool in_work;     /* parked while the device works for it */
    bool in_callback; /* parked until the callback of the current task has run */
    bool delayed;     /* its next task waits, or has waited: engine/shuffle.h */
    /* memory, and not all streams that wait for it have been looked at: see changed */
    bool changing : 1;
    bool away : 1;              /* a device does the work of its task: backend.h */
    bool counted : 1;           /* TASK_VALUE_WAIT: in value_waiters of the session page */
    bool held_watched : 1;      /* it was watched when it was held */
    bool launched : 1;          /* its kernel is over, and `changing` is of that */
    bool ahead : 1;             /* work of tasks behind the one read last may be given already */
    struct graph_run *graph;    /* NULL: it has none */
    struct stream *prev, *next; /* attach->active, or attach->stuck */
    uint64_t idle_since;
    uint64_t traced_ns; /* engine/trace_note.c: when its current task has begun; 0: it has not */
    struct waitlist passed; /* waiters for positions of this stream */

    struct waitlist *waiting_on; /* the list that its waiter is on, until resumed */
    union {                      /* no task both waits and works */
        struct waiter waiter;    /* on another stream, an event flag or an IPC event, ... */
        struct work work;
    };
    struct timer timer;
    struct stream *inbox_prev, *inbox_next;
    struct mem *uses[2]; /* the target and source of work that has begun: engine/work.h */
    /*
     * The task has made this change of a counter, and the stream looks at all waits for it; 0: no.
     * Or COUNT_TURN (notify_tasks.h). While changing by a launch: which allocation is looked at.
     */
    uint64_t count_change;
    union {
        struct {
            struct backend_memory *word; /* TASK_VALUE_WAIT: where that is */
            uint64_t parked_since;
        };
        struct value_range changed; /* while changing, and so not parked */
    };
    struct context *context;
    struct stream *context_prev, *context_next;

    /*
     * Of this stream and earlier ones of the slot; NULL: none. Under the locks of the session's
     * engines.
     */
    struct discards *discards;
};

static_assert(sizeof(void *) != 8 || sizeof(struct stream) == 320, "five cache lines");
static_assert(sizeof(void *) != 8 || offsetof(struct stream, waiting_on) == 128, "two are hot");

static inline int32_t stream_id(const struct stream *stream)
{
    return (int32_t)stream->id;
}

/** The stream whose waiter this is. */
static inline struct stream *stream_of_waiter(const struct waiter *w)
{
    return (struct stream *)((char *)w - offsetof(struct stream, waiter));
}

/** Not to be run, whatever its doorbell says. */
static inline bool stream_is_parked(const struct stream *stream)
{
    return stream->run >= RUN_PARKED;
}

/** The task at head was taken from the ring: kept->task is its copy. */
static inline bool stream_has_read(const struct stream *stream)
{
    return head_has(stream->live,
                    atomic_load_explicit(&stream->live->task.sequence, memory_order_relaxed));
}

/** The copy was taken: count what needed no task before it. Twice is the same as once. */
static inline void stream_count_implicit(struct stream_kept *kept)
{
    kept->implicit += (uint16_t)(kept->task.implicit - (uint16_t)kept->implicit);
}

/**
 * Its current task was begun, or has failed without that: a record has been told of then, and only
 * waits to be counted as a failure. After a wait, waiter.result is the outcome.
 */
static inline bool stream_has_begun(const struct stream *stream)
{
    return head_has(stream->live, stream->live->begun_at);
}

static inline void stream_begin_task(struct stream *stream)
{
    stream->live->begun_at = head_mark(stream->live);
}

/** Target and deadline of its current wait are noted. */
static inline bool stream_has_waited(const struct stream *stream)
{
    return head_has(stream->live, stream->live->wait_at);
}

/** The wait of its current task is over, as kept->outcome says. */
static inline bool stream_is_let_go(const struct stream *stream)
{
    return head_has(stream->live, stream->live->outcome_at);
}

/** Its current task has failed, as kept->failure says. */
static inline bool stream_has_failed(const struct stream *stream)
{
    return head_has(stream->live, stream->live->failure_at);
}

/** What was done of its current task is forgotten, and the task itself. */
static inline void stream_forget_task(struct stream *stream)
{
    struct stream_kept *k = stream->live;

    k->begun_at = k->failure_at = k->outcome_at = k->wait_at = 0;
    atomic_store_explicit(&k->task.sequence, 0, memory_order_relaxed);
}

/** Its current task has not failed yet, and is not passed over: rules may decide about it. */
static inline bool task_is_new(const struct stream *stream)
{
    return !stream_has_failed(stream) &&
           atomic_load_explicit(&stream->stopped, memory_order_relaxed) == 0;
}

/**
 * Id of the task at head, if it was read: the same as the client has given to the thread that
 * submitted it.
 */
static inline uint32_t stream_task_id(const struct stream *stream)
{
    return (uint32_t)stream->live->position + stream->live->implicit;
}

/**
 * Make a stream of session on an opened device, in the session's context of that number.
 * *file_fd is the arena's file, borrowed, if the client has not got it, else -1.
 */
enum cause stream_new(struct session *session, struct attach *attach, uint32_t context,
                      uint32_t priority, uint32_t flags, struct stream **streamp, int *file_fd);

/** From now on the context of stream stops at a failure. Control thread. */
void stream_stop_at_failure(struct stream *stream);

/**
 * Streams of the session that wait on list in a task about this object fail with error: the client
 * gives the object up. The engines are locked out.
 */
void stream_evict_waiters(struct session *session, struct waitlist *list, uint32_t object,
                          int32_t error);

/** How many more streams the session could make there now. */
uint32_t streams_remaining(const struct session *session, const struct attach *attach);

/**
 * Copy the entry at a position; false when it is not there (yet). Any thread, while the stream
 * lives. Word by word with atomic loads: each is read exactly once, whatever the client does
 * meanwhile. The sequence is stored last: a copy that was cut short is none (kept/stream_record.h).
 */
static inline bool stream_read_entry(const struct stream *s, uint64_t position, struct task *task)
{
    _Atomic uint64_t *entry = (_Atomic uint64_t *)(void *)&s->ring[position & (s->depth - 1)];
    uint64_t copy[sizeof(*task) / sizeof(uint64_t)] = {0};

    if (atomic_load_explicit(&entry[0], memory_order_acquire) != position + 1)
        return false;
    for (size_t i = 1; i < sizeof(copy) / sizeof(copy[0]); i++)
        copy[i] = atomic_load_explicit(&entry[i], memory_order_relaxed);
    memcpy((char *)task + sizeof(copy[0]), &copy[1], sizeof(*task) - sizeof(copy[0]));
    kept_order();
    atomic_store_explicit(&task->sequence, position + 1, memory_order_relaxed);
    return true;
}

/**
 * The position behind what the client has submitted; never further than its ring reaches, whatever
 * the client says. Control thread.
 */
uint64_t stream_end(const struct stream *stream);

/**
 * The position behind the last entry that the client has submitted, which is never further than its
 * ring reaches. Under the lock of the stream's engine.
 */
uint64_t stream_ring_end(const struct stream *stream);

/**
 * What is queued up to `end` is over without having been executed; `done` does not say so yet.
 * Under the lock of the stream's engine.
 */
void stream_drop_queue(struct stream *stream, uint64_t end);

/** Drop what is queued, wake all that wait for it, give the slot back. Takes the locks of the
 * session's engines. */
void stream_free(struct stream *stream);

/**
 * Publish that all tasks below position are retired, and wake the threads and streams that waited
 * for that. Under the engine's lock.
 */
void stream_publish(struct stream *stream, uint64_t position);

/**
 * Engine: publish what is done before the current task. A thread that sees what the task does, in
 * this process or in another, must find everything before it done.
 */
static inline void stream_publish_before(struct stream *stream)
{
    if (atomic_load_explicit(&stream->live->done, memory_order_relaxed) != stream->live->position)
        stream_publish(stream, stream->live->position);
}

/**
 * The wait that the stream is parked in is over, with this result: it is kept before the stream's
 * engine is told. The caller has taken the stream off its list. result: 0, an ACL error, or
 * EVENT_LOOK_AGAIN, for which the wait goes on.
 */
void stream_let_go(struct stream *stream, int32_t result, int32_t pid);

/**
 * Engine: the current task, which retires now, has failed; execute_task() tells the client. pid:
 * the process to blame, or 0.
 */
void stream_fail(struct stream *stream, int32_t error, int32_t pid);
