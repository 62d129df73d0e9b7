/*
 * `bench --against DIR`: this build and another one, each with an npud of its own, do the same rows
 * in step. Two processes measure, this program in both, with the library of one build or the other.
 * Round by round they take turns within milliseconds: a machine whose speed changes, changes it for
 * both, and the ratio is taken per round. Several such pairs follow one another (bench.c).
 *
 * The raw sides of the contests have nothing to say here and are left out, and so are rows that are
 * no contest.
 */
#pragma once

#include "tests/bench/bench.h"

/**
 * Where to find the page that both share, and which of the two this process is: set by ab_share()
 * for the child that runs the rows.
 */
#define AB_PAGE "NPUD_BENCH_PAGE"
#define AB_SIDE "NPUD_BENCH_SIDE"

enum ab_side { AB_NEW, AB_OLD, AB_SIDES };

/** Make the page at path, for two processes that are not there yet. */
void ab_create(const char *path);

/**
 * In a child, before it becomes one of the two: its environment. libdir: where libaclclient.so.1 of
 * its build is.
 */
void ab_share(const char *path, enum ab_side side, const char *libdir);

/** Is this process one of the two? Then options.ab is true. */
void ab_join(void);

/** Only the new one emits results. */
bool ab_is_new(void);

/**
 * contest_run() for one of two: `value` is this build's, `baseline` the other's, the spread is that
 * of the quartiles. For the other one what it returns means nothing.
 */
struct result ab_run(const struct row *row, const struct contest *contest);
