/* What each process of the workload does without the others. */
#pragma once

#include "acl/acl.h"

/** Begin work that is not over: the server is killed after it. */
void leave_work(void);
/** End it, and check all that it was to do. */
void end_work(void);

/** A bit of everything, on these streams. */
void do_alone(aclrtStream one, aclrtStream two);
