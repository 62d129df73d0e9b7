/*
 * The bell of a session at a queue that is part of a route: an eventfd by which the session wakes
 * npud when it has put a message, or made room.
 *
 * Each session has its own. Whoever has an eventfd can take away what others have written, fill it,
 * make it a blocking one and watch it very often: all of that holds for everybody who has it, so
 * no two sessions have one together. npud hears each write (the loop is told of it edge-triggered),
 * and never reads: that would call the client's watches (daemon/base/deferred_close.h).
 *
 * It goes with the attachment, and not with the ring: a queue that moves keeps it. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/cause.h"

struct queue_attach;

/** *fd: borrowed, made if need be. npud looks at the queue now. */
enum cause route_bell_get(struct queue_attach *attach, int *fd);

/** The attachment ends. Its session may have rung, and npud has not heard it: npud looks. */
void route_bell_close(struct queue_attach *attach);

/** For its record. 0: there is none. */
uint64_t route_bell_key(const struct queue_attach *attach);
/**
 * The attachment has the one with this key again. False: no memory. An npud of 0.9.0 in between has
 * left the key in the record, and let go of the descriptor: then the queue is to move
 * (queue.bell_lost), because sessions ask for another bell with another ring.
 */
bool route_bell_restore(struct queue_attach *attach, uint64_t key);
