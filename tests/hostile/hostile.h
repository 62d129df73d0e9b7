/*
 * Clients that do what no honest one does, as a table. Each speaks the protocol itself, not through
 * the library, which would be the first to suffer from what is done here; each is a process of its
 * own, goes on until it is killed, and comes back when npud ends its session.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "acl/acl.h"

/** What a hostile process is given. */
struct hostile {
    uint64_t rng; /* seed: the same one, the same misbehaviour (but for what is raced with) */
    aclrtIpcEventHandle spoiled; /* an event of the well-behaved ones that it may open */
    /* how often it has done its worst: a test of one that does nothing tests nothing */
    _Atomic uint32_t *progress;
};

/** Honest load of about the same shape, to compare with. */
enum shape {
    SHAPE_SPIN,  /* one process that never sleeps */
    SHAPE_SPIN2, /* two of them: a client and the engine that it keeps busy */
    SHAPE_PAIR,  /* packets to a second process that answers them */
    SHAPE_FLOOD, /* the same without waiting for the answers: both always have work */
    SHAPE_FORKS, /* processes that end at once, each with some packets to the second */
    SHAPE_RING,  /* an eventfd whose reader is woken by every write */
};

struct hostile_case {
    const char *name;
    void (*run)(struct hostile *h); /* does not return */
    enum shape shape;
    /*
     * npud must have told of it: words of its line; NULL: nothing to tell, it does what it may do,
     * a bit much
     */
    const char *told;
    const char *set[6]; /* further arguments of npud, ended by NULL */
};

extern const struct hostile_case hostile_cases[];
extern const unsigned hostile_n_cases;

/** Run an honest load of this shape. Does not return. */
void hostile_compare(enum shape shape);
