/*
 * One call that puts a message into a queue, or takes one out: what the calls by buffer and the
 * calls by bytes share.
 *
 * A transfer is a loop of attempts. An attempt makes no request and no sleep: it succeeds, or says
 * what must be done before the next one, Full and empty queues, segments that are not mapped yet,
 * rings that have moved are all steps of this loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/buffers/mbuf.h"
#include "client/buffers/queue.h"

struct transfer {
    const char *function;
    struct session *session;
    struct queue *queue;
    struct mbuf_ref *buffer; /* that is put, or was taken */
    uint64_t deadline;       /* 0: one attempt */
    uint64_t begun_ns;       /* 0: no trace runs */
    /* The call sleeps no more when this is true; NULL: nothing stops it. */
    const _Atomic bool *stopped;
    bool putting;
    bool slept;
    bool lost;         /* taking: the message was damaged, and is gone */
    uint32_t attempts; /* that were not DONE */
    struct ring *ring; /* of the last attempt; unless that was DONE, a use of it is held */
    uint64_t life;     /* of the queue; 0: not known yet */
    uint32_t woken;    /* what the other side's `waiting` was after the attempt; 0: nothing to do */
    uint32_t needed;   /* MAP, ALLOW_MAP: a ref */
    int error;         /* REFUSED */
    /* Putting: a ref into each segment that the chain is in. */
    uint32_t n_refs;
    uint32_t refs[MBUF_CHAIN_MAX];
    /*
     * Taking: the position that was tried last, in the ring of this number, and what npud would not
     * let us map for it: that of the message before, and of this one.
     */
    uint64_t position;
    uint32_t number;
    uint32_t n_refused;
    uint32_t refused[2];
};

/** npud knows that readers of the ring may map the segment of ref. */
static inline bool transfer_is_map_allowed(const struct ring *ring, uint32_t ref)
{
    const struct segment_view *v = segment_get(&segment_table, ref);
    uint32_t id = ref >> 16;
    struct allowed_chunk *chunk =
        atomic_load_explicit(&ring->allowed[id / ALLOWED_CHUNK], memory_order_acquire);

    return v && chunk &&
           atomic_load_explicit(&chunk->number[id % ALLOWED_CHUNK], memory_order_acquire) ==
               v->number;
}

/** In this life of the queue threads of this process do that: one of queue->used. */
static inline void transfer_note_life(_Atomic uint64_t *last, uint64_t life)
{
    if (__builtin_expect(atomic_load_explicit(last, memory_order_relaxed) != life, 0))
        atomic_store(last, life);
}

/**
 * The checks that all calls share: the session, the id. timeout in milliseconds, for all that is
 * done with t together; negative: no limit. buffer: of the caller, to be put, or for what is taken.
 */
int transfer_begin(struct transfer *t, const char *function, uint32_t id, int32_t timeout,
                   bool putting, struct mbuf_ref *buffer);

/**
 * Wake one that sleeps on the other side of a put, or of a take. One is enough: each message, and
 * each place that becomes free, wakes one. A transfer that leaves without taking it wakes the next
 * one.
 */
void transfer_wake(const struct ring *ring, bool putting);

/**
 * The caller has set a flag that is `stopped` of transfers, and these shall see it: wakes all that
 * sleep at the queue, on both sides. This process has the rights to put and to take.
 */
void transfer_wake_stopped(struct queue *queue);

/** The answer of an empty queue for which the call does not wait. */
int transfer_error_empty(const char *function, uint32_t id);

/** Wait until there is room. 0, or what the call returns. */
int transfer_room(struct transfer *t);

/**
 * transfer_room() has returned 0, and the caller puts nothing: another waiter for room gets
 * the wake-up that t may have had.
 */
void transfer_give_up(struct transfer *t);

/** Put the chain with the head *t->buffer. 0: it is the queue's; else it is still the caller's. */
int transfer_put(struct transfer *t);

/**
 * Take the next message: *t->buffer is the head, which the caller owns. 0, or what the call
 * returns.
 */
int transfer_take(struct transfer *t);
