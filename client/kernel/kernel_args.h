/* Lists of arguments (aclrtKernelArgs*), for a launch. */
#pragma once

#include "client/kernel/kernel.h"

/**
 * What a list holds, for the launch of func: args, size and placeholders. They stay the list's. 0,
 * or 100000, 107017, 107000: it is not finalized.
 */
int kernel_args_use(const char *api, aclrtArgsHandle handle, struct kernel_launch *launch);
