/*
 * The cost oracle: an input that costs npud more than COST_MAX_NS of CPU time in one step is a
 * finding. The steps, and whose they are, are those that npud itself measures
 * (daemon/base/step_meter.h). By the clock of an input (surroundings.h) each step is short; so all
 * are judged by their CPU time, which is the machine's.
 *
 * The monotonic clock of the machine is read first, because it is cheap, and counts no less than
 * the CPU time. An input with a step that seems long by it runs again, by the clock of CPU time.
 * That time is not the same in every run: an interrupt counts as well. So an input is a finding
 * only if each of COST_TRIES runs of it is too long.
 */
#pragma once

#include "fuzz.h"

#define COST_MAX_NS UINT64_C(2000000)
#define COST_TRIES  5

/** Run the input; abort if npud was busy with one step for too long. 0, for libFuzzer. */
int cost_judge(void (*run)(struct input *in), const uint8_t *data, size_t size);
