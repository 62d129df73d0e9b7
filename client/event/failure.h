/* What a program ends: tasks of streams, and those of devices. */
#pragma once

#include "acl/acl.h"

/** What aclrtStreamStop() does; stream is not NULL. 0, or an ACL error. */
int failure_stop_stream(const char *function, aclrtStream stream);
