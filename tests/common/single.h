/*
 * A test program that is one test of check, for the sake of the harness, and counts something else:
 * programs, rounds. It runs in the process itself and prints what tests/run-all.sh reads.
 */
#pragma once

#include <check.h>
#include <stdint.h>

/**
 * Run the test and print the line, with *passed as the number of checks that passed. Returns the
 * exit status.
 */
int single_run(const char *name, const TTest *test, const uint64_t *passed);

/** A number in C's notation. What is none ends the program with status 2. */
uint64_t number_of(const char *text);
/** A number from the environment; fallback when it is not there. */
uint64_t number_from_env(const char *name, uint64_t fallback);
