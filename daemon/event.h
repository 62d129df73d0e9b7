/*
 * Plain events, npud's side: what engines need to execute records, resets and waits on them. What
 * an event captured is known to its client only (proto/event_shm.h).
 *
 * Made and destroyed by the control thread; engines find it by slot and generation in
 * session->events.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/user.h"
#include "daemon/waitlist.h"
#include "proto/event_shm.h"
#include "proto/slots.h"

struct session;

struct event_obj {
    struct slot slot;
    bool closing; /* destroyed by the client, not yet passed by its streams */
    struct session *session;
    uint32_t flags; /* creation flags, for npuctl */
    uint32_t device;
    struct event_slot *shm; /* shared, hostile */
    struct charge charge;
    struct waitlist
        raised;           /* streams parked on the level; target: raises so far when they parked */
    uint64_t time_number; /* newest record with a timestamp; under raised.lock */
};

/** ACL error, or 0 with *eventp; *segment_fd as in stream_new(). */
int32_t event_obj_new(struct session *session, uint32_t flags, uint32_t device,
                      struct event_obj **eventp, int *segment_fd);

/** Give the slot back. Streams that still wait for the level go on. */
void event_obj_free(struct event_obj *event);

/** Engine: a record was executed. number: which one; flags: TASK_RECORD_*, what it is to do. */
void event_obj_record(struct event_obj *event, uint64_t number, unsigned flags);
