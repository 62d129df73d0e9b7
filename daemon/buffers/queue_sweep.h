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
 * Is the buffer in the ring: put, and not committed? sender: the session of its word. For a sender
 * that puts nothing any more, whatever the members of the queue do meanwhile: if false, the buffer
 * is not there, or its word is not what it was before the call. npud passes over the ring once
 * after the sender's end, and remembers the refs.
 */
bool queue_sweep_has(struct queue *queue, uint32_t ref, uint32_t sender);

/**
 * Is the buffer in the ring with this number, of a queue from which clients may map its segment?
 * As queue_sweep_has().
 */
bool queue_sweep_sent(const struct segment *segment, uint32_t number, uint32_t ref,
                      uint32_t sender);

/**
 * The session has put its last message: its process has exited, or has been left. What npud
 * remembers of rings from before does not say what it has put.
 */
void queue_sweep_puts_end(struct peer *peer);

/* --- the end of a session; in this order --- */

/**
 * What the session's death, or its end, has left in the ring of one of its queues is put right; the
 * others learn that it is gone. True: there was none left.
 */
bool queue_sweep_attachment(struct peer *peer);

/**
 * One of its attachments ends; a queue without an attachment or a grant goes. True: there was none
 * left.
 */
bool queue_sweep_leave(struct peer *peer);
