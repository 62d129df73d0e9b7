/* How long a kernel may run: process-wide, for what is launched afterwards. */
#pragma once

#include "proto/shm/task.h"

/** A TASK_DELAY, the stand-in for a kernel: cut off at the limit in force, and then it fails. */
void op_timeout_apply(struct task *delay);

/** aclInit in a forked child: no limit was set here. */
void op_timeout_forget(void);
