/*
 * Memory of the arena that goes back to the system while the session goes on: files whose
 * streams or events are all destroyed. What a peak took goes with it, and not with the session.
 *
 * npud takes other memory in the place of such a file (RenewArena), and the process puts memory
 * of its own in the place of its mapping, until the next object there brings that of npud. No side
 * makes holes in the old one: that is done under locks of the file, which a hostile process with
 * the same file can keep, so the kernel refuses it for files of npud (docs/security.md).
 *
 * Control blocks of streams stay as they were: positions captured of destroyed streams read them.
 *
 * To renew costs a request, and page faults when the place is used again. So a few rings and
 * files are kept: a program that makes and destroys one object after the other renews nothing.
 *
 * All functions: under session->lock, which also orders them with the creation of the next object
 * in the same place.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/arena.h"
#include "proto/shm/doorbell.h"

struct session;
struct use;

/** Of an event file. Zeroed: it was never used. */
struct arena_events {
    uint32_t live; /* events in it */
    bool dirty;    /* it may have pages */
    bool renewed;  /* npud's memory for it comes with the next event */
    uint32_t n;    /* of uses: where tasks on its destroyed events were queued */
    uint32_t size;
    struct use *uses; /* also what has passed since, and earlier ones of the same stream */
};

struct arena_pages {
    /* Bits by npud's slot of a stream. */
    struct {
        uint64_t live; /* a stream has it */
        uint64_t left; /* npud has destroyed its stream, and no other has it */
    } rings[SESSION_STREAMS_MAX / 64];
    /* that the slot's ring may have; of destroyed streams */
    uint16_t ring_pages[SESSION_STREAMS_MAX];
    uint32_t pages_left; /* in all rings that are left */
    /* npud's memory for the file comes with the next stream */
    bool renewed_rings[SESSION_STREAMS_MAX / ARENA_STREAMS];
    struct arena_events events[SESSION_EVENTS_MAX / ARENA_EVENTS];
    uint32_t empty_files; /* dirty and without events */
};

/** Is the slot that of a stream of this session? */
bool arena_pages_ring_lives(const struct session *s, uint32_t slot);

/** npud has given out this slot for a stream. */
void arena_pages_ring_taken(struct session *s, uint32_t slot);

/** npud is about to be asked to destroy the stream, which has had so many tasks. */
void arena_pages_ring_leaving(struct session *s, uint32_t slot, uint64_t tasks);

/** npud has answered. If another stream has the slot by now, the ring is that one's. */
void arena_pages_ring_left(struct session *s, uint32_t slot);

/** npud has given out this slot for an event. */
void arena_pages_event_taken(struct session *s, uint32_t slot);

/**
 * npud was asked to destroy the event. uses: where tasks on it are queued (USE_FENCE): engines read
 * and write the slot until they have passed.
 */
void arena_pages_event_left(struct session *s, uint32_t slot, const struct use *uses, uint32_t n);

/** The session goes: free what this holds on the heap. */
void arena_pages_deinit(struct session *s);
