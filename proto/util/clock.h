/* The clock of this process: CLOCK_MONOTONIC nanoseconds. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC  UINT64_C(1000000000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_USEC UINT64_C(1000)

/** Nanoseconds of CLOCK_MONOTONIC; the same value in every process of one time namespace. */
static inline uint64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/** The same as of the kernel's last tick: some milliseconds ago, for a quarter of the cost. */
static inline uint64_t clock_coarse_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/** Nanoseconds of CPU time that the calling thread has had. Costs several times as much. */
static inline uint64_t clock_cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline struct timespec timespec_from_ns(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
                             .tv_nsec = (long)(ns % NSEC_PER_SEC)};
}

static inline void clock_sleep_until(uint64_t ns)
{
    struct timespec until = timespec_from_ns(ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
