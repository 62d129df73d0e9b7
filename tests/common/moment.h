/* Between two looks at what another thread or process is about to do. */
#pragma once

#include <time.h>

/**
 * Let others run, for some ten microseconds. Not sched_yield(): Linux 6.18 takes a share of virtual
 * time from whoever yields, and with thousands a second that runs away by days within the group of
 * the session (autogroup), until the kernel runs this group only: for half a minute no process of
 * another session runs, none of npud's and none of the kernel's own. Unit tests, which last a
 * second and have no other process, yield all the same.
 */
static inline void wait_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = 10000};

    nanosleep(&moment, NULL);
}
