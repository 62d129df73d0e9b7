/* `npuctl doctor`: does this host have what npud and its programs need? */
#pragma once

#include "client/tools/npuctl/task.h"

/** Checks it all, and prints. STATUS_ERROR if something does not work. */
enum status doctor_run(const struct task *task);
