/*
 * Actors, and what they know of each other (docs/checking.md, "Actors and clocks").
 *
 * What an actor knows at one of its epochs never changes: its epoch grows before it learns. So an
 * actor that knows another up to epoch e knows everything that the other knew then, and need not
 * join its clock again.
 *
 * Clocks are immutable while more than one refers to them: to note what an actor knows is a
 * reference, not a copy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACTOR_NONE UINT32_MAX

struct clock {
    uint32_t refs;
    uint32_t n;
    uint64_t epoch[]; /* by index of actor; beyond n: 0, nothing */
};

struct actor {
    uint32_t index;
    uint32_t process; /* world->processes, of a stream; else ACTOR_NONE */
    uint64_t epoch;   /* of what it does now; 0: it has done nothing */
    struct clock *known;
    void *stream; /* the stream that it is, or NULL */
};

/**
 * Something that others can come after: an actor at an epoch, with what it knew. Without an actor
 * (ACTOR_NONE): several of them, which are in the clock. Zeroed with ACTOR_NONE: nothing.
 */
struct point {
    uint32_t actor;
    uint64_t epoch;
    struct clock *clock; /* a reference, or NULL: nothing is known */
};

#define POINT_NOTHING ((struct point){.actor = ACTOR_NONE})

/** Whether what *a does comes after that epoch of the actor `other`. */
static inline bool actor_knows(const struct actor *a, uint32_t other, uint64_t epoch)
{
    if (other == a->index || epoch == 0)
        return true;
    return a->known && other < a->known->n && a->known->epoch[other] >= epoch;
}

/** *a comes after *p from its next epoch on. */
void actor_join(struct actor *a, const struct point *p);

/** What others learn of *a now. The caller frees it with point_free(). */
struct point actor_point(const struct actor *a);

struct clock *clock_ref(struct clock *c);
void clock_unref(struct clock *c);

struct point point_copy(const struct point *p);
void point_free(struct point *p);

static inline bool point_is_nothing(const struct point *p)
{
    return p->actor == ACTOR_NONE && !p->clock;
}

/** What comes after *all comes after *p, too. */
void point_add(struct point *all, const struct point *p);
