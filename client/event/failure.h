/* What a program ends: tasks of streams, and those of devices. */
#pragma once

#include "acl/acl.h"

/**
 * What aclrtStreamStop() does; stream is not NULL. position: behind the task that is to end, if the
 * stream is at that; 0: whatever it is at. 0, or an ACL error.
 */
int failure_stop_stream(const char *function, aclrtStream stream, uint64_t position);
