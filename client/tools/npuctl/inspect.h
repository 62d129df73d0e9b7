/* `npuctl inspect`: all of one session, from the reports on everything. */
#pragma once

#include "client/tools/npuctl/task.h"

/** Asks npud about task->session, and prints. */
enum status inspect_run(const struct task *task);
