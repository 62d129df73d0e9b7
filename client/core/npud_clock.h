/*
 * npud's clock. Times that npud or another process reads (of events, of a trace, of a thread that
 * sleeps) are CLOCK_MONOTONIC as npud has it. A process in a time namespace of its own has another
 * one: its distance is learned when npud answers Hello. Deadlines of this process's own sleeps stay
 * in its own clock, which the kernel takes.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "proto/util/clock.h"

/** What is added to the own clock: a constant of the process once it has connected. */
extern _Atomic int64_t npud_clock_offset;

static inline uint64_t npud_clock_from(uint64_t own)
{
    return own + (uint64_t)atomic_load_explicit(&npud_clock_offset, memory_order_relaxed);
}

static inline uint64_t npud_clock_ns(void)
{
    return npud_clock_from(clock_ns());
}

/**
 * npud's clock was at `theirs` at some moment between `before` and `after` of the own one. theirs
 * 0: an older npud, which does not say.
 */
void npud_clock_learn(uint64_t theirs, uint64_t before, uint64_t after);
