/*
 * Queues as this process knows them: by id, each with the ring that carries its messages at this
 * moment (proto/shm/queue_shm.h). A queue is known here once it was created or attached, until it
 * has been destroyed or the last right to it is gone.
 *
 * The ring of a queue changes: npud makes a new one when a process has lost a right and still maps
 * the old one. A thread that finds the old one ended attaches again (queue_follow()) and goes on.
 *
 * A thread that puts or takes has no lock: the ring itself needs none (proto/shm/queue_shm.h), and
 * a guard keeps it mapped (client/core/ring_guard.h). A thread that sleeps or asks npud for
 * something holds a use of the ring instead.
 *
 * A call that has begun on one queue must not go on with another that has got its id meanwhile:
 * npud gives each a serial, its `life`.
 */
#pragma once

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/buffers/queue_bell.h"
#include "client/core/ring_guard.h"
#include "proto/shm/queue_shm.h"
#include "proto/wire/npud.pb-c.h"

struct session;

#define ALLOWED_CHUNK 256u /* segments */

/*
 * Which segments the readers of a ring may map: by the id of a segment its number, of which npud
 * was told; 0: it was not.
 */
struct allowed_chunk {
    _Atomic uint64_t number[ALLOWED_CHUNK];
};

/** What one side of a ring, the takers or the putters, reads and writes to sleep. */
struct ring_side {
    const struct queue_party_news *news; /* what npud says about this side */
    _Atomic uint64_t *waiting;           /* how many sleep on this side */
    _Atomic uint32_t *word; /* the futex on which they sleep: the other side changes it */
    uint32_t right;         /* that a process on this side has */
};

struct ring {
    alignas(64) _Atomic uint64_t head_seen; /* view.seen */
    struct ring *retired_next;
    struct queue_bell bell;
    _Atomic uint32_t uses; /* the queue's, and those of sleepers */
    uint64_t life;         /* of the queue that it is a ring of */
    struct queue_view view;
    struct ring_side side[2]; /* 0: of takers; 1: of putters */
    uint32_t rights;          /* of this process */
    _Atomic(struct allowed_chunk *) allowed[SEGMENT_IDS / ALLOWED_CHUNK];
};

struct queue {
    uint32_t id;
    /* Another user's queue: its owner's uid, and its id there. Else remote is id. */
    bool of_user;
    uint32_t owner, remote;
    pthread_mutex_t follow_lock; /* for changing the ring; across requests */
    _Atomic(struct ring *) ring; /* NULL: not known */
    /* Why the last ring went: the process lost its last right, or else npud destroyed the queue. */
    _Atomic bool lost_right;
    /*
     * The last life in which threads of this process have been on a side, as ring.side has them:
     * they serve each other.
     */
    _Atomic uint64_t used[2];
};

/** All queues that a session knows. */
struct queues {
    _Atomic(struct queue *) queue[QUEUE_LOCAL_IDS];
    pthread_mutex_t name_lock;    /* for an entry from QUEUE_IDS on; without other locks */
    pthread_mutex_t retired_lock; /* innermost */
    struct ring *retired;         /* no queue's any more, but perhaps in use */
};

/**
 * The queue with this id as the session knows it, or NULL with *error set and the sentence stored:
 * 107000 or 507899.
 */
struct queue *queue_find(struct session *s, const char *function, uint32_t id, int *error);

/** 507899: there is no such queue here. */
int queue_error_unknown(const char *function, uint32_t id) __attribute__((cold));

/** 507899: it was here. 507901 if npud ended the ring because it ends, or ends the session. */
int queue_error_destroyed(const char *function, uint32_t id) __attribute__((cold));

/** 507899: a peer has written into its ring what no honest session writes. */
int queue_error_damaged(const char *function, uint32_t id) __attribute__((cold));

/**
 * One more, or one less, use of a ring, which the caller guards or has a use of. The last unmaps
 * it.
 */
void queue_use_ring(struct ring *ring);
void queue_drop_ring(struct ring *ring);

/**
 * The ring of the queue at this moment, or NULL. It stays mapped until queue_leave_ring(). Never
 * two at once in a thread.
 */
static inline struct ring *queue_enter_ring(struct ring_guard *guard, struct queue *queue)
{
    struct ring *ring = atomic_load_explicit(&queue->ring, memory_order_acquire), *seen;

    for (;;) {
        ring_guard_set(guard, ring);
        seen = atomic_load_explicit(&queue->ring, memory_order_acquire);
        if (__builtin_expect(seen == ring, 1))
            return ring;
        ring = seen;
    }
}

static inline void queue_leave_ring(struct ring_guard *guard)
{
    ring_guard_set(guard, NULL);
}

/**
 * `old` has ended: it was destroyed, or has moved. 0: look at queue->ring again. Else the ACL
 * error: 507899 destroyed, or what npud says when this process has no right any more; or 507899
 * damaged: npud knows nothing of the end, so a peer has written it there. Then the ring stays the
 * queue's: npud may make another one, without the right of that peer. Without locks.
 */
int queue_follow(struct session *s, const char *function, struct queue *queue, struct ring *old);

/**
 * A queue that npud answers a request with: known here from now on, and *life is its life. 0, or
 * the ACL error; then *id, QUEUE_LOCAL_IDS before, is its id if npud has answered.
 */
int queue_open(struct session *s, const char *function, Npud__Request *request, uint32_t *id,
               struct queue **queue, uint64_t *life);

/**
 * After this request of the queue this process has it no more. 0, or the ACL error. A thread that
 * uses it finds that out.
 */
int queue_leave(struct session *s, const char *function, Npud__Request *request,
                struct queue *queue);

/** Messages in it at this moment. 0, or the ACL error. */
int queue_count(struct session *s, const char *function, struct queue *queue, uint64_t life,
                uint32_t *count);

/**
 * Let go of the rings of queues that were destroyed, or that this process has lost all rights to.
 * False: a thread still uses one; try again in a moment.
 */
bool queue_let_go_all(struct session *s);
