/*
 * What sessions that have died, or have ended, have left in the rings of queues, and which messages
 * are there. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct peer;
struct queue;
struct segment;

/**
 * Is the buffer in the ring: put, and not committed? For a buffer whose sender puts nothing any
 * more, whatever the members of the queue do meanwhile: if false, it is not, or its word is not
 * what it was before the call. Between queue_sweep_begin() and queue_sweep_pause() as of the first
 * call: good enough for what a dead session has put, and faster.
 */
bool queue_sweep_has(struct queue *queue, uint32_t ref);

/**
 * Is the buffer in the ring with this number, of a queue from which clients may map its segment?
 * As queue_sweep_has().
 */
bool queue_sweep_sent(const struct segment *segment, uint32_t number, uint32_t ref);

/* --- the end of a session; in this order --- */

/**
 * What the session's death, or its end, has left in the ring of one of its queues is put right; the
 * others learn that it is gone. True: there was none left.
 */
bool queue_sweep_attachment(struct peer *peer);

/**
 * A piece of the sweep of its segments begins: queue_sweep_has() remembers the rings as they were
 * when this sweep first asked for them. To others, between two pieces, it says what is there now.
 */
void queue_sweep_begin(struct peer *peer);
void queue_sweep_pause(struct peer *peer);

/**
 * One of its attachments ends; a queue without an attachment or a grant goes. True: there was none
 * left.
 */
bool queue_sweep_leave(struct peer *peer);
