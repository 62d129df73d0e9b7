/* `npuctl monitor`: what happens, line by line, until it is interrupted. */
#pragma once

#include "client/tools/npuctl/task.h"

/** Goes on with the next npud when the one that it listens to has ended. */
enum status monitor_run(const struct task *task);
