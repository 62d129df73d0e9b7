/*
 * The participants in the tests of IPC events: one event, and its handles in one, two or three
 * processes. The creator is one of them. Some processes have two handles.
 */
#pragma once

#include "event_actor.h"

#define HANDLES_MAX 5

struct cast {
    unsigned processes;
    unsigned n;                  /* handles */
    struct ref ref[HANDLES_MAX]; /* [0]: the creator's own */
};

/** Start npud with these further arguments and the actors. */
void cast_start(struct cast *c, unsigned processes, const char *const *args);
/** Let the actors go, and assert that nothing is left. */
void cast_end(struct cast *c);

/**
 * A new event, and its handles in all processes. Even processes open it on device 0, odd ones on 1.
 */
void cast_open(struct cast *c);
/** Destroy all handles but those that are NULL, beginning with number `first`. */
void cast_close(struct cast *c, unsigned first);
