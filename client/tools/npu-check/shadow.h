/*
 * What was done to the bytes of an allocation: an ordered map of ranges, each with its last write,
 * the reads since then, and whether it was ever written. A range is about a hundred bytes; what has
 * the same history is one range.
 */
#pragma once

#include <bsd/sys/tree.h>

#include "client/tools/npu-check/acts.h"
#include "client/tools/npu-check/clock.h"

/** An access, as others remember it. */
struct history {
    uint32_t actor; /* ACTOR_NONE: there is none */
    uint32_t act;
    uint64_t epoch;
};

RB_HEAD(shadow_tree, shadow_range);

struct shadow {
    struct shadow_tree ranges;
    struct shadow_range *latest; /* used last, or NULL */
    bool written;                /* what has no range counts as written */
};

enum shadow_how {
    SHADOW_READ = 1,
    SHADOW_WRITE = 2,
    SHADOW_WORD = 4,  /* races with nothing, but is written */
    SHADOW_FREE = 8,  /* with WRITE: the bytes are gone */
    SHADOW_FRESH = 16 /* with WRITE: the bytes are new; what was done to them before is forgotten */
};

enum shadow_tells {
    SHADOW_WRITTEN,  /* by an access that has no order with it */
    SHADOW_READ_BY,  /* likewise */
    SHADOW_FREED,    /* with a free that comes before it */
    SHADOW_UNWRITTEN /* these bytes are read */
};

struct shadow_use {
    const struct actor *actor; /* at the epoch of the access */
    struct actor *const *actors;
    struct acts *acts;
    uint32_t act;
    uint8_t how; /* enum shadow_how, or-ed */
    uint64_t start, end;
    /**
     * Called for what is wrong with bytes start .. end. It must not change the shadow, and may
     * refer to with->act.
     */
    void (*tell)(void *owner, enum shadow_tells what, const struct history *with, uint64_t start,
                 uint64_t end);
    void *owner;
};

void shadow_init(struct shadow *s, bool written);
void shadow_deinit(struct shadow *s, struct acts *acts);
/** Tells what is wrong with it, and remembers it. */
void shadow_access(struct shadow *s, const struct shadow_use *use);
/** Tells with what a write by actors of `process` alone would conflict, and remembers nothing. */
void shadow_look(const struct shadow *s, const struct shadow_use *use, uint32_t process);
/** Forgets everything about these bytes. */
void shadow_forget(struct shadow *s, struct acts *acts, uint64_t start, uint64_t end);
/** What has written bytes of start .. end, added to *all. */
void shadow_add_writes(const struct shadow *s, struct actor *const *actors, uint64_t start,
                       uint64_t end, struct point *all);
/** For tests: how many ranges there are. */
size_t shadow_count(const struct shadow *s);
