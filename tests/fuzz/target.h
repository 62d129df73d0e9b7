/*
 * What the targets with an npud share: the set-up, the same for all inputs; the run of an input;
 * the end, with the look whether npud holds nothing. Under `make fuzz`, the world is put back after
 * each input (snapshot/snapshot.h), and comes to its end with some inputs only: which, depends on
 * the input alone.
 */
#pragma once

#include "fuzz.h"

struct target {
    void (*set_up)(void); /* world_begin() and more */
    void (*run)(struct input *in);
};

/** Run the input, and judge its cost. 0, for libFuzzer. */
int target_run(const struct target *target, const uint8_t *data, size_t size);
