/*
 * Plain events, npud's side: what engines need to execute records, resets and waits on them. What
 * an event captured is known to its client only (proto/shm/event_shm.h).
 *
 * Made and destroyed by the control thread; engines find it by slot and generation in
 * session->events.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"
#include "daemon/kept/event_record.h"
#include "proto/shm/event_shm.h"
#include "proto/util/slots.h"

struct kept_cell;
struct server;
struct session;
struct stream;

struct event_obj {
    struct slot slot;
    bool closing; /* destroyed by the client, not yet passed by its streams */
    uint8_t device;
    uint16_t flags; /* creation flags, for npuctl */
    /*
     * Newest record (its low half) that a stopped stream has passed over, and the code for which it
     * was stopped; 0: there is none.
     */
    _Atomic uint32_t dropped;
    _Atomic int32_t dropped_code;
    struct event_slot *shm; /* shared, hostile */
    struct event_kept *live;
    struct waitlist
        raised; /* streams parked on the level; target: raises so far when they parked */
};

/** *file_fd: as in stream_new(). */
enum cause event_obj_new(struct session *session, uint32_t flags, uint32_t device,
                         struct event_obj **eventp, int *file_fd);

/** Give the slot back. Streams that still wait for the level go on. */
void event_obj_free(struct session *session, struct event_obj *event);

/** Streams of the client are to pass it, then it goes: its creator has destroyed it. Or not. */
void event_obj_set_closing(struct event_obj *event, bool closing);

/**
 * Engine: a record was executed, by the current task of stream. number: which one; flags:
 * TASK_RECORD_*, what it is to do. Without TASK_RECORD_LEVEL stream may be NULL.
 */
void event_obj_record(struct event_obj *event, struct stream *stream, uint64_t number,
                      unsigned flags);

/** Engine: the current task of stream lowers the level. */
void event_obj_reset(struct event_obj *event, struct stream *stream);

/**
 * Engine: record `number`, which would have raised the level, will never be executed. Waits that
 * were submitted when it or an older one was the latest fail.
 */
void event_obj_drop(struct event_obj *event, uint64_t number, int32_t code);
/**
 * The code for such a wait, submitted when `number` was the latest record (0: none was); 0: it may
 * still be raised.
 */
int32_t event_obj_dropped(const struct event_obj *event, uint64_t number);
/**
 * What a waiter on `raised` is fired with when a record was dropped: it is to ask
 * event_obj_dropped(). No ACL error.
 */
#define EVENT_LOOK_AGAIN (-1)
