/* `npuctl metrics`: what npud reports, as OpenMetrics text. */
#pragma once

#include "client/tools/npuctl/task.h"

/** Asks npud and prints; with --listen, serves what npud answers until it is ended. */
enum status metrics_run(const struct task *task);
