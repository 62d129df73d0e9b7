/* A binary heap of timers by deadline. A timer is a member of the object that it wakes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** All zero: not set. */
struct timer {
    uint64_t deadline; /* of the last timers_set() */
    uint32_t place;    /* 1 + index in the heap; 0: not set */
};

struct timers {
    struct timer **heap;
    uint32_t n;
    size_t size;
};

void timers_deinit(struct timers *timers);
/** Set or move a timer. -ENOMEM when the heap cannot grow. */
int timers_set(struct timers *timers, struct timer *timer, uint64_t deadline);
/** Stop it. Safe when it is not set. */
void timers_clear(struct timers *timers, struct timer *timer);
/** The timer with the earliest deadline, or NULL. */
struct timer *timers_first(const struct timers *timers);
