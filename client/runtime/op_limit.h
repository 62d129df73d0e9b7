/*
 * How long a kernel may run: process-wide, for what is launched afterwards. As on the NPU that is
 * simulated, limits are whole steps, and not more than 254 of them. Any thread.
 */
#pragma once

#include <stdint.h>

#define OP_LIMIT_STEP_US UINT64_C(100000)

/** Set it, rounded up; 0: the longest. Returns what is in force then, in microseconds. */
uint64_t op_limit_set(uint64_t us);
/** Nanoseconds for a kernel that is launched now; 0: no limit was set. */
uint64_t op_limit_ns(void);
/** The same; without a limit the longest that there is. */
uint64_t op_limit_or_longest_ns(void);
