/*
 * `npuctl trace stream` writes what rings of a trace have to a file, again and again while the
 * trace runs, so that nothing is lost when they are full; `npuctl trace dump --from=FILE` prints
 * it.
 *
 * The file: TRACE_FILE_HEAD, and then for each answer of npud its size, as 8 bytes, the lowest
 * first, and a packed Report. What is behind the last whole one is not read.
 */
#pragma once

#include "client/tools/npuctl/task.h"

#define TRACE_FILE_HEAD "npud trace 1\n"

/** Until the trace ends, npud does not answer, or SIGINT or SIGTERM arrives. */
enum status trace_follow_run(const struct task *task);

/** Prints the file that task->from names. */
enum status trace_follow_print(const struct task *task);
