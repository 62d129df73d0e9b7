/* Programs that npuctl starts, and what they print. */
#pragma once

#include <stddef.h>

#define HELPER_LIMIT_S 20 /* they answer within milliseconds, or they hang */

/**
 * Starts argv[0], found in PATH, and waits for its end: its exit status, 128 and the signal that
 * has ended it, or a negative errno: -ENOENT if there is no such program, -ETIME if it was killed
 * after HELPER_LIMIT_S. It reads from the descriptor in, and its output and errors go to out; -1 is
 * /dev/null.
 */
int helper_run(char *const argv[], int in, int out);

/** The same, with no input, and the first size - 1 bytes of what it prints in text. */
int helper_read(char *const argv[], char *text, size_t size);
