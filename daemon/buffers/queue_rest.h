/*
 * Rings that have ended, with thousands of messages in them, each of many buffers. What is in a
 * ring is noted at once, and then done in steps of the queue's user: to change the words of
 * thousands of buffers takes milliseconds, most of them for pages that npud looks at for the first
 * time.
 *
 * If the queue has ended, the messages are freed. If it has moved to a new ring, because a session
 * has lost a right to it and still maps the old one, they are moved. Until all of them are there,
 * no session has the new ring: a session that asks for it waits (CAUSE_QUEUE_MOVING), and the
 * router puts nothing there.
 *
 * Until the last message is done, the number of the ring that has ended, which stands in the words
 * of its buffers, is no other ring's.
 *
 * Then the threads that sleep on the ring are woken, some of them at once and the rest in steps, as
 * the kernel takes its time for each. Until all are awake, the record has the files of the ring: a
 * later npud wakes those that are left. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct queue;
struct queues;
struct kept_cell;
struct server;

/**
 * The queue's ring ends, and no sleeper is woken yet: the queue itself ends later, in steps. Safe
 * to repeat, also by the next npud.
 */
void queue_rest_end_ring(struct queue *queue);

/** The queue ends: its ring does, and its messages are freed. It has no ring from then on. */
void queue_rest_begin(struct queue *queue);

/**
 * The queue gets a new ring, with the messages of the old one. 0, or -errno with nothing changed. A
 * queue that is moving already gets no other ring: no session has the new one.
 */
int queue_move(struct queue *queue);

/**
 * As queue_move(), for a session that loses its rights and cannot be refused that. If there is no
 * descriptor or memory, free buffers make room, and npud gives up its descriptors of the old ring;
 * if there is still none, the queue is destroyed: then -errno.
 */
int queue_move_or_destroy(struct queue *queue);

/**
 * The keeper has gone: queues that are about to end, and whose ring npud has closed, have ended
 * when this returns. Else the next npud would find records of files that the next keeper does not
 * have.
 */
void queues_end_closed(struct queues *queues);

/** Are there messages that are still to be moved from the ring that had this number? */
bool queue_moves_from(const struct queues *queues, uint32_t number);
/** All is there: the npud before may have been about to end a ring, or to move a message. */
void queue_rests_finish_restoring(struct queues *queues);

/** npud ends: sessions are freed next, each in one go, which no rest may be in the way of. */
void queue_rests_finish(struct queues *queues);
