/* `npuctl trace stats FILE`: calls and tasks of a trace that was printed, as JSON or as a page. */
#pragma once

#include "client/tools/npuctl/task.h"

/** By kind and name: how many, how long, how many bytes. As a table, or with --json. */
enum status trace_stats_run(const struct task *task);
