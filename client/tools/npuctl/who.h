/* `npuctl who`: the processes that use a device, a queue or an IPC event, and what each does. */
#pragma once

#include "client/tools/npuctl/task.h"

/** Asks npud about task->who, and prints. */
enum status who_run(const struct task *task);
