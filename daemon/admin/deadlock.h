/* Circles among the waits of a graph. Control thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct blocked;
struct wait_graph;

struct deadlock {
    bool certain;
    uint32_t processes;
    size_t n;                      /* members */
    const struct blocked **member; /* each waits for the next, the last for the first */
};

/**
 * Add the deadlocks that are certain, or those that are suspected, and mark the waits that are in
 * or behind one. g->live: on entry, the waits that can end without any other; used up. 0 or
 * -ENOMEM.
 */
int deadlocks_find(struct wait_graph *g, bool certain);

/** The circle, in words. */
void deadlock_describe(const struct deadlock *d, char *buf, size_t size);
