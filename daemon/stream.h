/*
 * Streams, npud's side.
 *
 * Owner: made and destroyed by the control thread. While it lives, everything but the constant part
 * belongs to the engine of its device and is touched under that engine's lock; `done` alone may be
 * read by anybody (other engines park streams on it).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "daemon/backend.h"
#include "daemon/user.h"
#include "daemon/value.h"
#include "daemon/waitlist.h"
#include "proto/slots.h"
#include "proto/stream_shm.h"

struct session;
struct attach;

enum stream_run {
    RUN_IDLE,   /* not watched: waits for its doorbell bit */
    RUN_ACTIVE, /* on the engine's list: has tasks, or had some a moment ago */
    RUN_PARKED, /* waits for something, or for a point in time, or for both */
};

struct stream_id {
    struct slot slot;
};

struct stream {
    struct slot slot; /* in session->streams */

    uint32_t priority; /* control thread */

    /* constant while it lives */
    struct session *session;
    struct attach *attach;
    struct stream_id *id;
    uint32_t flags;
    uint32_t depth;
    struct stream_ctrl *ctrl; /* shared, hostile */
    struct task *ring;        /* shared, hostile */
    struct charge charge;

    /* engine */
    enum stream_run run;
    struct stream *prev, *next; /* attach->active */
    uint64_t idle_since;
    uint64_t head;    /* next position to execute */
    struct task task; /* the copy of the entry at head, while has_task */
    bool has_task;    /* taken from the ring, not finished */
    bool started; /* task_execute() was called before; after a wait, waiter.result is the outcome */
    bool rung;    /* active because the doorbell said so, and no task was found so far */
    bool changing;        /* memory, and who waits for that is not told completely: see changed */
    bool counted;         /* TASK_VALUE_WAIT: in value_waiters of the session page */
    struct waiter waiter; /* on another stream, an event flag or an IPC event ... */
    struct waitlist *waiting_on; /* ... namely this list, until resumed */
    struct stream *inbox_next;
    bool in_inbox; /* under the engine's inbox lock */
    bool took; /* a notify's bit was spent on this wait, which has not been retired (notify.c) */
    struct work work; /* TASK_VALUE_WAIT: dst is the word, in npud's mapping */
    uint32_t timer;   /* 1 + index in the engine's heap; 0: none */
    union {
        struct {
            uint64_t deadline; /* while timer != 0 */
            uint64_t parked_since;
        };
        struct values_range changed; /* while changing, and so neither timed nor parked */
    };
    uint64_t callback;  /* ordinal of the callback that it is parked for; 0: none */
    uint64_t callbacks; /* ordinal of the latest callback that was handed over */

    _Atomic uint64_t done;  /* tasks retired; what was published to the client */
    struct waitlist passed; /* who waits for positions of this stream */

    /* fault injection (inject.h): last, since it is hardly ever looked at */
    uint64_t ordinal; /* constant: how many streams its session had made before */
    uint64_t first;   /* constant: its first position */
    uint64_t judged;  /* 1 + the last position that rules have been asked about */
};

static inline int32_t stream_id(const struct stream *stream)
{
    return (int32_t)stream->id->slot.number;
}

/**
 * Make a stream of session on an opened device. Errors are ACL codes for the client; 0 with
 * *streamp set. *segment_fd is the arena segment when a new one was made (the caller sends and
 * closes it), else -1.
 */
int32_t stream_new(struct session *session, struct attach *attach, uint32_t priority,
                   uint32_t flags, struct stream **streamp, int *segment_fd);

/** How many more streams the session could make there now. */
uint32_t streams_left(const struct session *session, const struct attach *attach);

/**
 * Copy the entry at a position; false when it is not there (yet). Any thread, while the stream lives. Word by word with atomic loads:
 * each is read exactly once, whatever the client does meanwhile.
 */
static inline bool stream_read_entry(const struct stream *s, uint64_t position, struct task *task)
{
    _Atomic uint64_t *entry = (_Atomic uint64_t *)(void *)&s->ring[position & (s->depth - 1)];
    uint64_t copy[sizeof(*task) / sizeof(uint64_t)] = {0};

    if (atomic_load_explicit(&entry[0], memory_order_acquire) != position + 1)
        return false;
    for (size_t i = 1; i < sizeof(copy) / sizeof(copy[0]); i++)
        copy[i] = atomic_load_explicit(&entry[i], memory_order_relaxed);
    memcpy(task, copy, sizeof(*task));
    return true;
}

/** The position behind what the client has submitted; never further than its ring reaches, whatever the client says. Control thread. */
uint64_t stream_end(const struct stream *stream);

/** Drop what is queued; done jumps to the tail. IPC records among it fail. Takes the locks of the session's engines. */
void stream_abort(struct stream *stream);

/** The session ends: what its stream has queued for notifies will not come. The stream is forgotten by its engine. */
void stream_drop_notifies(struct stream *stream);

/** Drop what is queued, wake everybody who waits for it, give the slot back. Takes the locks of the
 * session's engines. */
void stream_free(struct stream *stream);

/** Publish that all tasks below position are retired, and wake who waited for that. Under the
 * engine's lock. */
void stream_publish(struct stream *stream, uint64_t position);

/** Engine: note the failure of the current task, for the client's next synchronise call. pid: who
 * is to blame, or 0. */
void stream_fail(struct stream *stream, int32_t error, int32_t pid);
