/* Between two looks at what another thread or process is about to do. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "proto/util/clock.h"

/**
 * Let others run, for some ten microseconds. Not sched_yield(): Linux 6.18 takes a share of virtual
 * time from whoever yields, and with thousands a second that runs away by days within the group of
 * the session (autogroup), until the kernel runs this group only: for half a minute no process of
 * another session runs, none of npud's and none of the kernel's own. Unit tests, which last a
 * second and have no other process, yield all the same.
 */
static inline void wait_a_moment(void)
{
    const struct timespec moment = {0, 10000};

    nanosleep(&moment, NULL);
}

/**
 * The same, for conditions that cost whoever is asked more than a look: for a quarter of the time
 * that has been waited for so far, and 2 ms at most. since: when that began, clock_ns().
 */
static inline void wait_a_while(uint64_t since)
{
    uint64_t ns = (clock_ns() - since) / 4;
    const struct timespec pause = {0, (long)(ns < 2000000 ? ns : 2000000)};

    nanosleep(&pause, NULL);
}
