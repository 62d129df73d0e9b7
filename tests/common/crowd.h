/*
 * A crowd: many processes, each a client of npud with a session, streams and events of its own,
 * that do the same in step. They stand in a ring: each has events of the one before it open.
 *
 * Fork it from a process that has not used the library. Steps are given in the order of the
 * enumeration; LINK, ARM and RUN make a lap of work and may be repeated.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define CROWD_STREAMS 10u /* of each member, the default stream of its device among them */
#define CROWD_PLAIN   92u
#define CROWD_OWN     4u /* IPC events of its own, exported ... */
#define CROWD_THEIRS  4u /* ... and as many of the one before it, open */
#define CROWD_EVENTS  (CROWD_PLAIN + CROWD_OWN + CROWD_THEIRS)

enum crowd_step {
    CROWD_CONNECT, /* all at once */
    CROWD_CREATE,  /* streams and events */
    CROWD_OPEN,    /* the events of the one before */
    CROWD_ARM,     /* record an IPC event behind a closed gate */
    CROWD_LINK,    /* let the record of the one before open the gate */
    /* the first opens its gate: all records complete, one after the other, round the ring */
    CROWD_RUN,
    CROWD_LEAVE, /* and exit: one destroys all it has, the next does not */
};

struct crowd;

/** Fork n members. They wait for their first step. NULL: no memory or processes. */
struct crowd *crowd_start(unsigned n);

/** All do the step. Returns when they have: NULL, or what went wrong (the crowd's memory). */
const char *crowd_step(struct crowd *crowd, enum crowd_step step);

/** The steps until all are there with everything they are to have. */
const char *crowd_assemble(struct crowd *crowd);

/** A lap of work. What each member saw is checked by itself, the order of them all here. */
const char *crowd_lap(struct crowd *crowd);

/** SIGKILL to all that are there. */
void crowd_kill(struct crowd *crowd);

/**
 * Reap and free. NULL, or what went wrong (static memory): a member that was neither killed here
 * nor left with status 0.
 */
const char *crowd_end(struct crowd *crowd);
