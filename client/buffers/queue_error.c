/* What calls return when something is wrong with a queue: queue.h. */
#include "client/buffers/queue.h"

#include "acl/acl.h"
#include "client/core/error.h"

int queue_error_unknown(const char *function, uint32_t id)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                     "%s: queue %u is unknown here: it does not exist, has been destroyed, or this "
                     "process has not attached it, or lost its right to it (acltdtAttachQueue)",
                     function, id);
}

int queue_error_damaged(const char *function, uint32_t id)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                     "%s: queue %u is damaged: a process with a right to it has written there",
                     function, id);
}

int queue_error_destroyed(const char *function, uint32_t id)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: queue %u has been destroyed", function,
                     id);
}
