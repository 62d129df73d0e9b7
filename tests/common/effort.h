/*
 * How long a test goes on. `make check` has a limit of minutes for all tests together; `make
 * check-long` sets NPUD_TEST_LONG, and the same tests do more rounds. A test states both figures,
 * so that each is seen beside the other.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

/**
 * `brief` in make check, `full` in make check-long: rounds, seconds, whatever the caller counts.
 */
static inline unsigned choose_effort(unsigned brief, unsigned full)
{
    return getenv("NPUD_TEST_LONG") ? full : brief;
}

/**
 * The same for the rounds of what takes long under a sanitizer: a quarter with NPUD_TEST_BRIEF,
 * which CI has there (BRIEF=1 in mk/test.mk).
 */
static inline unsigned choose_rounds(unsigned brief, unsigned full)
{
    unsigned n = choose_effort(brief, full);

    return getenv("NPUD_TEST_BRIEF") ? (n + 3) / 4 : n;
}

/**
 * A promise of so many milliseconds, in nanoseconds. It is judged where the machine is the test's
 * own: make check runs on machines that are busy, and has a guard against hanging in its place.
 */
static inline uint64_t promised_ns(unsigned ms)
{
    return choose_effort(10000, ms) * UINT64_C(1000000);
}
