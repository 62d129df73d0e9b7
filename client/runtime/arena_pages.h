/*
 * Pages of the arena that this process gives back to the system: rings of destroyed streams, and
 * segments whose events are all destroyed. What a peak took goes with it, and not with the session.
 *
 * The process punches the holes and not npud: the kernel takes the file's lock for that, which a
 * hostile process with the same file can keep, and no client may make npud wait. What a client does
 * not punch goes with its session; the limits on streams and events bound how much that is. npud
 * believes nothing that it reads there: a hole reads as zeros, which is a ring without tasks and an
 * event that was never recorded.
 *
 * Control blocks of streams are never punched: positions captured of destroyed streams read them.
 *
 * A hole costs a system call, and a page fault when the place is used again. So a few rings and
 * segments are kept: a program that makes and destroys one object after the other punches nothing.
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

/** Of an event segment. Zeroed: it was never used. */
struct arena_events {
    uint32_t live; /* events in it */
    bool dirty;    /* it may have pages */
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
    struct arena_events events[SESSION_EVENTS_MAX / ARENA_EVENTS];
    uint32_t segments_left; /* dirty and without events */
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
