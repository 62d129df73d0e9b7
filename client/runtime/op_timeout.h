/* How long a kernel may run. */
#pragma once

#include <stdint.h>

/** Nanoseconds for a kernel that is launched now; 0: no limit. */
uint64_t op_timeout_ns(void);
/** The same; without a limit the longest that there is. */
uint64_t op_timeout_or_longest_ns(void);
