/*
 * The cost oracle: an input that costs npud more than COST_MAX_NS of CPU time in one step is a
 * finding. The steps, and whose they are, are those that npud itself measures
 * (daemon/base/step_meter.h).
 *
 * An input runs by its own clock first (surroundings.h), so that what npud does depends on the
 * input alone. The monotonic clock of the machine tells how long each step takes there: it is cheap
 * to read, and counts no less than the CPU time.
 *
 * But a step of that run may be longer than it can be. A look at the clock takes a fixed time
 * there, however much npud has done since the look before: so a job that goes on until its slice is
 * over goes on for too long. Therefore an input with a step that seems long runs again, by the CPU
 * clock. In that run, a step sees the CPU time that it has taken, and ends when it would end on an
 * idle machine. Only such runs are judged.
 *
 * The CPU time is not the same in every run: an interrupt counts as well. So an input is a finding
 * only if each of COST_TRIES such runs has a step that is too long.
 */
#pragma once

#include "fuzz.h"

/* With ThreadSanitizer a step takes ten times as long, and twenty on a core with two threads. */
#ifdef __SANITIZE_THREAD__
#define COST_MAX_NS UINT64_C(20000000)
#else
#define COST_MAX_NS UINT64_C(2000000)
#endif
#define COST_TRIES 5

/** Run the input; abort if npud was busy with one step for too long. 0, for libFuzzer. */
int cost_judge(void (*run)(struct input *in), const uint8_t *data, size_t size);

/**
 * What npud is to see at a look at the clock of the input, which says `now`: in a run that is
 * judged, no less than what the step has taken so far.
 */
uint64_t cost_clock(uint64_t now);

/** Between these, the fuzzer does what a kernel would not: it is no cost of npud. */
uint64_t cost_own_begin(void);
void cost_own_end(uint64_t since);
