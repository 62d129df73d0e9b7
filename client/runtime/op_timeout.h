/* How long a kernel may run: process-wide, for what is launched afterwards. And
 * aclnpudLaunchDelay(), the stand-in for a kernel.
 */
#pragma once

#include "client/core/lifecycle.h"

extern const struct part op_timeout_part;
