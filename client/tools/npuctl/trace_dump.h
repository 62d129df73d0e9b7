/* `npuctl trace`: starts and stops a trace, and prints it: for Chrome's and Perfetto's viewers, or
 * as a page that is one by itself. */
#pragma once

#include <stdbool.h>

#include "client/tools/npuctl/task.h"
#include "proto/wire/npud.pb-c.h"

/** The words after `trace`, as `parse` of struct command. */
const char *trace_parse(char **words, int n, struct task *task, const char **about);

/** Prints the events of a report, with --html as a page. */
enum status trace_print(const Npud__Report *report, const struct task *task);
