/*
 * Rows of the table of hostile clients: one for each thing that they do. With NPUD_TEST_TABLE=1 in
 * the environment each program below tests/hostile prints its rows, all with the same columns: who
 * attacks, what became of the honest clients beside them, how long these waited (the 99th
 * percentile, and beside what it is compared with), the longest step that npud has done, and the
 * longest wait in one: of the control thread and of all engines.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/npud.pb-c.h"

#define ROW_ATTEMPTS 10 /* beside others, half of them have a long one: pidfds that are closed */

struct row {
    const char *name;
    unsigned attackers; /* processes */
    unsigned sessions;  /* of theirs, at most; 0: one each */
    uint64_t honest;    /* results of honest clients that were right; a wrong one fails the test */
    /*
     * In ns, beside the attackers, and beside what this is compared with; 0: not measured.
     */
    uint64_t p99, p99_compared;
};

/**
 * To be called while npud runs, after the attack. Prints the row, and judges the longest step of
 * npud by what npud itself says: 2 ms of CPU time at most. CPU time also counts interrupts, in
 * which the kernel frees what other processes have closed, and in a virtual machine what the host
 * did meanwhile (docs/testing.md): a long step is npud's own if each attempt has one. False: all is
 * to be done once more, with a new npud; attempt counts from 0. Asserts after ROW_ATTEMPTS.
 */
bool row_finish(const struct row *row, unsigned attempt);

/** If it is wished, print the row only, with this status of npud. */
void row_print(const struct row *row, const Npud__StatusRow *status);

/** The same with the times of the well-behaved pair (victims.h), which must still be there. */
bool row_finish_victims(const char *name, unsigned attackers, unsigned sessions, unsigned attempt);

/** A suite that is one test for each attack, or, with NPUD_HOSTILE_CASE=n, for that one. */
Suite *row_suite(const char *name, const TTest *test, int attacks);

/** In a hostile process: what it needs for its attack. Ends it with a line and errno if not. */
void must(bool holds, const char *what);
