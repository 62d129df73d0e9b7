/* How long a kernel may run: process-wide, for what is launched afterwards. */
#pragma once

#include "client/core/lifecycle.h"
#include "proto/shm/task.h"

/** A TASK_DELAY, the stand-in for a kernel: cut off at the limit in force, and then it fails. */
void op_timeout_apply(struct task *delay);

extern const struct part op_timeout_part;
