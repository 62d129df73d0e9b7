/*
 * Shared memory of a plain event (every kind but IPC): one slot in a segment of the session's
 * arena.
 *
 * What an event captured is a stream and a position, and lives in the client: a query compares it
 * with that stream's `done`. Only two things need a place that the engine can write: the level of
 * events made for stream waits with ACL_EVENT_SYNC ("flag"), and the timestamp of the latest record
 * that was executed by an engine.
 *
 * Writers: `level` is raised and lowered by the engines when they execute a record or a
 * reset, and by the client when it does so at the call because the stream was idle; `records` by
 * the client. The rest is written by npud.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/kill_point.h"

struct event_slot {
    /*
     * Bit 0: the level. Above it, 32 bits: how often it was raised. Above them, 31 bits: a tag,
     * which the client leaves as it is: which change of an engine was the last one, so that an npud
     * that comes back makes none twice (daemon/core/event.c). A stream that parks remembers the
     * count; it goes on when the level is up or the count has moved, so that a raise followed by a
     * reset at once is not lost on it.
     *
     * Raising at the call: raise, then load level_waiters; when not zero, have the engine look
     * (TASK_RECORD_WAKE). Parking: store level_waiters, then load level. Sequentially consistent
     * both: one of the two sees the other.
     */
    alignas(64) _Atomic uint64_t level;
    _Atomic uint32_t level_waiters; /* npud: streams may be parked on the level */
    /* Written number last (release) and read number first, again after the time: a torn pair is
     * noticed. */
    _Atomic uint64_t time_number; /* record that time_ns belongs to; 0: none */
    _Atomic uint64_t time_ns;     /* CLOCK_MONOTONIC of npud */
    _Atomic uint64_t records; /* client: how often it was recorded. Only told to people; relaxed */
};

static_assert(sizeof(struct event_slot) == 64, "one cache line per event");

#define EVENT_LEVEL_UP UINT64_C(1)

#define EVENT_COUNT     (UINT64_C(0xffffffff) << 1)
#define EVENT_TAG_SHIFT 33

/** How often it was raised. */
static inline uint64_t event_level_count(uint64_t level)
{
    return (level & EVENT_COUNT) >> 1;
}

static inline uint32_t event_level_tag(uint64_t level)
{
    return (uint32_t)(level >> EVENT_TAG_SHIFT);
}

static inline uint64_t event_level_with_tag(uint64_t level, uint32_t tag)
{
    return (level & (EVENT_COUNT | EVENT_LEVEL_UP)) | (uint64_t)tag << EVENT_TAG_SHIFT;
}

/** The level after it is raised, and after it is lowered. */
static inline uint64_t event_level_raised(uint64_t level)
{
    return (level & ~EVENT_COUNT) | ((level + 2) & EVENT_COUNT) | EVENT_LEVEL_UP;
}

static inline uint64_t event_level_lowered(uint64_t level)
{
    return level & ~EVENT_LEVEL_UP;
}

#define EVENT_RAISE_TRIES 1000 /* more than any honest race takes */

/**
 * Client: raise the level. Count and level change in one atomic step: a reset between two steps
 * would leave the count moved and the level down, and a stream that waits for this raise alone
 * could not tell whether it had come. The slot is the client's to write: the attempts are bounded,
 * and a client that makes each of them fail loses its own raise.
 */
static inline void event_slot_raise(struct event_slot *e)
{
    uint64_t old = atomic_load_explicit(&e->level, memory_order_relaxed);
    unsigned tries = 0;

    /* seq_cst: level_waiters is loaded next; see level. */
    while (!atomic_compare_exchange_weak_explicit(&e->level, &old, event_level_raised(old),
                                                  memory_order_seq_cst, memory_order_relaxed) &&
           ++tries < EVENT_RAISE_TRIES)
        ;
    KILL_POINT(LEVEL_RAISED);
}

/** Client. */
static inline void event_slot_lower(struct event_slot *e)
{
    atomic_fetch_and(&e->level, event_level_lowered(UINT64_MAX));
    KILL_POINT(LEVEL_LOWERED);
}

/** npud: publish the timestamp of record `number`. The caller serialises calls for one slot. */
static inline void event_slot_set_time(struct event_slot *e, uint64_t number, uint64_t ns)
{
    atomic_store_explicit(&e->time_number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&e->time_ns, ns, memory_order_relaxed);
    atomic_store_explicit(&e->time_number, number, memory_order_release);
}

/**
 * Client: timestamp of record `number`, or false when the slot holds another one. No record has
 * number 0.
 */
static inline bool event_slot_get_time(struct event_slot *e, uint64_t number, uint64_t *ns)
{
    uint64_t first = atomic_load_explicit(&e->time_number, memory_order_acquire);
    uint64_t t = atomic_load_explicit(&e->time_ns, memory_order_relaxed);

    atomic_thread_fence(memory_order_acquire);
    if (number == 0 || first != number ||
        atomic_load_explicit(&e->time_number, memory_order_relaxed) != first)
        return false;
    *ns = t;
    return true;
}
