/*
 * npu-run --repeat: the command once more, and once more, until a run differs from the first in its
 * exit status or its standard output. Each run is an npu-run of its own, with its own npud, and
 * with --shuffle its own seed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct repeat {
    unsigned runs;    /* 0, 1: no repeating */
    bool shuffles;    /* --shuffle */
    uint64_t shuffle; /* its seed; 0: to be drawn */
};

#define REPEAT_MAX 1000000u

/** Options. False: the value is refused, and a message has been printed. */
bool repeat_read_runs(struct repeat *r, const char *value);
bool repeat_read_shuffle(struct repeat *r, const char *value);

/** Draws the seed if there is none, and says it. False: there is no random number to be had. */
bool repeat_draw_seed(struct repeat *r);

/**
 * Runs argv[0] with its first n_options arguments and the command behind them, again and again.
 * Standard input is empty. Returns the exit status: that of the runs if all are the same; of the
 * one that differs, or 1 if that is 0.
 */
int repeat_run(const struct repeat *r, char **argv, int n_options, char **command);
