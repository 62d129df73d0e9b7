/*
 * Budgets that depend on where the two processors are (placement.h), or that are no ratio to the
 * row's own baseline. The other ones stand in the rows themselves.
 */
#pragma once

#include <stdio.h>

#include "tests/bench/bench.h"

/** The table: each budget, judged where this run has seen it. Nothing without a row of one. */
void budgets_print(const struct result *results, unsigned n);

/** The same as members of a JSON array. */
void budgets_write(FILE *f, const struct result *results, unsigned n);
