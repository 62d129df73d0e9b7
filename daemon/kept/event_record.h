/*
 * What is kept of a plain event, in the record of its arena segment (arena_record.h): a live part.
 *
 * Writers: the control thread writes `is`; the engines write the rest, under the lock of the
 * event's list `raised`.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

struct event_kept {
    /* event_is(): changes with the commit of a step. 0: there is no event in the slot. */
    alignas(32) _Atomic uint64_t is;
    /* The newest record with a timestamp. The time is stored first. */
    uint64_t time_ns;
    uint64_t time_number;
    /* As in struct event_obj. The number is stored first. */
    uint32_t dropped;
    int32_t dropped_code;
};

static_assert(sizeof(struct event_kept) == 32, "a session has hundreds of them");

#define EVENT_IS_CLOSING (UINT64_C(1) << 56)

/** A live event. generation: 31 bits; device: 8; flags: 16. */
static inline uint64_t event_is(uint32_t generation, uint8_t device, uint16_t flags)
{
    return (uint64_t)generation << 1 | 1 | (uint64_t)device << 32 | (uint64_t)flags << 40;
}

static inline uint32_t event_is_generation(uint64_t is)
{
    return (uint32_t)is >> 1;
}

static inline uint8_t event_is_device(uint64_t is)
{
    return (uint8_t)(is >> 32);
}

static inline uint16_t event_is_flags(uint64_t is)
{
    return (uint16_t)(is >> 40);
}
