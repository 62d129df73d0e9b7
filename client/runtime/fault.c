/*
 * Faults of devices. A simulated device has one when an administrator takes it away (npuctl inject
 * lose-device): it stops responding (507010). Clearing that rule is the only repair.
 */
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"

aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(errorInfo);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    memset(errorInfo, 0, sizeof(*errorInfo));
    /* npud tells only processes that have opened the device; the others have lost nothing. */
    if (device_loss(s, device) != 0)
        errorInfo->errorType = ACL_RT_ERROR_OTHERS;
    return 0;
}

aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(errorInfo);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    RETURN_IF_ERROR(device_check_open(s, __func__, deviceId, device));
    if (errorInfo->errorType == ACL_RT_NO_ERROR)
        return 0;
    if (errorInfo->errorType != ACL_RT_ERROR_MEMORY)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtRepairError: errorType is %d, must be 0 (none) or 1 (memory)",
                         (int)errorInfo->errorType);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclrtRepairError: a simulated device cannot be repaired: it is there again "
                     "when an administrator clears the rule (npuctl inject clear)");
}

aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize,
                            size_t *retSize)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    (void)arraySize; /* not too small for what there is */
    REQUIRE(memUceInfoArray);
    REQUIRE(retSize);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    *retSize = 0;
    return 0;
}

static int check_repair(const char *function, const aclrtMemUceInfo *array, size_t n)
{
    if (n > ACL_RT_MEM_UCE_INFO_MAX_NUM)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: arraySize is %zu, at most %d", function, n,
                         ACL_RT_MEM_UCE_INFO_MAX_NUM);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < UCE_INFO_RESERVED_SIZE; j++)
            if (array[i].reserved[j] != 0)
                return error_set(ACL_ERROR_INVALID_PARAM,
                                 "%s: reserved[%zu] of entry %zu must be 0", function, j, i);
    return 0;
}

aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(memUceInfoArray);
    RETURN_IF_ERROR(check_repair(__func__, memUceInfoArray, arraySize));
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclrtMemUceRepair: memory of a simulated device has no such errors");
}
