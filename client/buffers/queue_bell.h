/*
 * Waking npud's router. A ring that is the source or the destination of a route has npud on one of
 * its sides, and npud sleeps in its loop, not on a futex: it sets QUEUE_ROUTER where that side
 * waits (proto/shm/queue_shm.h), and the thread that sees the bit writes the eventfd of the ring,
 * which is asked for when it is first needed. After putting:
 *
 *     if (queue_waiting(&view->take->waiting) & QUEUE_ROUTER)
 *         queue_bell_ring(session, &ring->bell, view->number);
 *
 * and after taking the same with view->put->waiting.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct session;

/** One in what the process knows of a ring. All zero: not asked for yet. */
struct queue_bell {
    _Atomic int fd_plus_one;
};

/**
 * Wake the router for ring `number`. Any thread; at first one request, so hold no lock that others
 * need to take or put. Records no error: the message is where it should be, and a ring that has no
 * part in a route any more needs no router.
 */
void queue_bell_ring(struct session *session, struct queue_bell *bell, uint32_t number);

/** The ring is forgotten: no thread rings any more. Again is fine. */
void queue_bell_close(struct queue_bell *bell);
