/*
 * Handles: what programs hold instead of pointers. A handle names kind, slot and generation, so
 * that a stale one, one of another kind, one of another process (generations start at random) or
 * garbage is recognised and never followed.
 *
 *     63..56  'N'   no user-space pointer begins like this
 *     55..52  kind
 *     51..24  generation
 *     23..0   slot, by its place (proto/util/slots.h)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/util/slots.h"

enum handle_kind {
    HANDLE_CONTEXT = 1,
    HANDLE_STREAM = 2,
    HANDLE_EVENT = 3,
    HANDLE_GRAPH = 4,
    HANDLE_NOTIFY = 8,
    HANDLE_COUNT_NOTIFY = 9,
    HANDLE_PHYSICAL = 10,
    HANDLE_MEMORY_POOL = 11,
    HANDLE_BINARY = 12,
    HANDLE_FUNCTION = 13,
    HANDLE_CHANNEL = 15,
};

#define HANDLE_MARK       UINT64_C(0x4e)
#define HANDLE_GENERATION 0xfffffffu

/** The handle of an object that begins with a struct slot. */
static inline void *handle_of(enum handle_kind kind, const void *object)
{
    const struct slot *s = object;

    return (void *)(uintptr_t)(HANDLE_MARK << 56 | (uint64_t)kind << 52 |
                               (uint64_t)(slot_generation(s) & HANDLE_GENERATION) << 24 |
                               slots_place(s->number));
}

/** Does the handle name a live object with this tag, of a slot that has the place in the handle? */
static inline bool handle_has_tag(const void *handle, uint32_t tag)
{
    uint32_t named = (uint32_t)((uint64_t)(uintptr_t)handle >> 24) << 1 | 1;

    return ((tag ^ named) & (HANDLE_GENERATION << 1 | 1)) == 0;
}

/** Does the handle, by which a thread has found the object, still name it? */
static inline bool handle_names(const void *handle, const void *object)
{
    const struct slot *s = object;

    return handle_has_tag(handle, atomic_load_explicit(&s->tag, memory_order_acquire));
}

/**
 * The live object that handle names in table t, or NULL. Any thread, no lock. *tagp is its tag: a
 * caller that locks the object afterwards and finds another tag has come too late, though the slot
 * may have got a live object again.
 */
static inline void *handle_get_tag(const struct slots *t, enum handle_kind kind, const void *handle,
                                   uint32_t *tagp)
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    struct slot *s;
    uint32_t tag;

    if (h >> 52 != (HANDLE_MARK << 4 | kind))
        return NULL;
    s = slots_at_place(t, (uint32_t)h & 0xffffff);
    if (!s)
        return NULL;
    tag = atomic_load_explicit(&s->tag, memory_order_acquire);
    if (!handle_has_tag(handle, tag))
        return NULL;
    *tagp = tag;
    return s;
}

/** The same for callers that do not lock the object. */
static inline void *handle_get(const struct slots *t, enum handle_kind kind, const void *handle)
{
    uint32_t tag;

    return handle_get_tag(t, kind, handle, &tag);
}

/** Does it name an object that t has or has had? Under the lock of slots_take(). */
static inline bool handle_is_known(const struct slots *t, enum handle_kind kind, const void *handle)
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    uint32_t age = (uint32_t)(h >> 24) - t->seed;

    return h >> 52 == (HANDLE_MARK << 4 | kind) && slots_number((uint32_t)h & 0xffffff) < t->end &&
           (age & HANDLE_GENERATION) <= t->latest - t->seed;
}
