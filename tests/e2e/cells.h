/*
 * Cells of the tables of the event reference. Each is asked for by itself and counted; with
 * NPUD_TEST_TABLE=1 in the environment each is printed as a row: processes, what, actors, result.
 */
#pragma once

#include <stdbool.h>

#include <check.h>

/** The following cells belong to a table for so many processes (1 to 3). */
void cells_processes(unsigned n);

/**
 * One cell came out right, or not. `what` is a row and column, the rest names the actors (printf).
 * Does not end the test: cells_expect_ok() does.
 */
void cell(bool ok, const char *what, const char *who, ...) __attribute__((format(printf, 3, 4)));

/** Assert that no cell of this test failed; names the first that did. */
void cells_expect_ok(void);

/** run_suite(), and "cells: ..." with the number of cells of all its tests. For main(). */
int cells_run_suite(Suite *suite);
