/*
 * Queues as this process knows them: by id, each with the ring that carries its messages at this moment (proto/queue_shm.h). A queue is known here
 * once it was created or attached, until it has been destroyed or the last right to it is gone.
 *
 * The ring of a queue changes: npud makes a new one when somebody has lost a right and still maps the old one. Who finds the old one ended attaches
 * again (queue_follow()) and goes on.
 *
 * Locks: each direction has one, for the few instructions that put or take, never held across a request or asleep. queue->ring changes with both
 * held, and is read with either. Who sleeps holds a use of the ring instead, so that it stays mapped.
 *
 * A call that has begun on one queue must not go on with another that has got its id meanwhile: npud gives each a serial, its `life`.
 */
#pragma once

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/queue_bell.h"
#include "proto/queue_shm.h"

struct session;

struct ring {
    struct queue_view view;
    uint32_t rights;       /* of this process */
    uint64_t life;         /* of the queue that it is a ring of */
    _Atomic uint32_t uses; /* the queue's, and those of who sleeps */
    struct queue_bell bell;
    alignas(64) _Atomic uint64_t head_seen; /* view.seen */
    /* By segment id: the number of the segment that npud was told of as feeding this ring; 0: none. Under the lock of who puts. */
    uint64_t *fed;
    uint32_t n_fed;
};

struct queue {
    uint32_t id;
    pthread_mutex_t put_lock, take_lock; /* in this order */
    pthread_mutex_t follow_lock;     /* who changes the ring; before the others, across requests */
    struct ring *ring;               /* NULL: not known */
    uint64_t life;                   /* of the last one that had this id; 0: none so far */
    _Atomic bool has_put, has_taken; /* threads of this process serve each other */
};

/** The queue with this id as the session knows it, or NULL with *error set and the sentence stored: 107000 or 507899. */
struct queue *queue_find(struct session *s, const char *function, uint32_t id, int *error);

/** 507899: there is no such queue here. */
int queue_error_unknown(const char *function, uint32_t id) __attribute__((cold));

/** One more, or one less, use of a ring. The last unmaps it. */
void ring_use(struct ring *ring);
void ring_drop(struct ring *ring);

/**
 * Is npud still there for the session? When it ends, or ends the session, it ends rings and tells of leaving peers before it closes the connection: what
 * the ring says may be the first news of that.
 */
bool queue_still_served(struct session *s);

/**
 * `old` has ended: it was destroyed, or has moved. 0: look at queue->ring again. Else the ACL error: 507899 destroyed, or what npud says when this
 * process has no right any more. Without locks.
 */
int queue_follow(struct session *s, const char *function, struct queue *queue, struct ring *old);

/** The session ends, and no thread is in a call any more. */
void queues_free(struct session *s);

/** In a forked child, where the parent's rings are not mapped: close what descriptors there are. */
void queues_forget_inherited(struct session *s);
