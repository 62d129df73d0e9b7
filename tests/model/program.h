/*
 * Random programs for the model: made from a seed, predicted, printed, and made smaller while they
 * fail.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/model/model.h"

#define STEPS_MAX 96
#define TRACE_MAX (STEPS_MAX + 160) /* with the steps that bring it to its end */

struct program {
    uint64_t seed;
    unsigned n;
    struct step step[STEPS_MAX];
};

/** One step with all that must be seen of it. */
struct traced {
    struct step step;
    struct expect expect;
    int16_t object;              /* of step.var, afterwards; -1: none */
    bool settle;                 /* everything has come to rest before the next step begins */
    struct view view[PROCESSES]; /* afterwards; only `submitted` is certain without settle */
};

struct trace {
    struct model model; /* after the last step */
    unsigned n;
    struct traced at[TRACE_MAX];
};

/**
 * The program of this seed: the same on every machine. expire: it begins with a wait that runs out
 * of time, which takes a second.
 */
void program_generate(struct program *p, uint64_t seed, bool expire);

/**
 * Run the model over a program. Steps that make no sense (any more, after others were left out) are
 * left out. False: it does not come to a clean end (possible only when steps were left out).
 */
bool program_trace(const struct program *p, struct trace *t);

void step_print(FILE *f, const struct step *s);

/**
 * Leave out steps, and haste, as long as fails(p, arg) stays true and until it says that enough was
 * tried.
 */
void program_shrink(struct program *p, bool (*fails)(const struct program *p, void *arg),
                    bool (*enough)(void *arg), void *arg);
