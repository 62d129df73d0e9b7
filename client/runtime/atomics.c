/*
 * Which atomic operations there are between host and device, and between devices. A simulated core
 * runs no kernels, so there is only what the DMA engine does: reductions (aclrtReduceAsync).
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"

#define OPERATION_LAST 44
#define DMA_CAPABILITIES                                                                           \
    (ACL_RT_ATOMIC_CAPABILITY_SIGNED | ACL_RT_ATOMIC_CAPABILITY_UNSIGNED |                         \
     ACL_RT_ATOMIC_CAPABILITY_REDUCTION | ACL_RT_ATOMIC_CAPABILITY_SCALAR8 |                       \
     ACL_RT_ATOMIC_CAPABILITY_SCALAR16 | ACL_RT_ATOMIC_CAPABILITY_SCALAR32)

static int check_operations(const char *function, const uint32_t *capabilities,
                            const aclrtAtomicOperation *operations, uint32_t count)
{
    if (!capabilities || !operations || count == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: capabilities and operations must be arrays of count entries, and "
                         "count not 0",
                         function);
    for (uint32_t i = 0; i < count; i++)
        if ((unsigned)operations[i] > OPERATION_LAST)
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: operations[%u] is %d, must be 0 to %d", function, i,
                             (int)operations[i], OPERATION_LAST);
    return 0;
}

/* dma: of what the DMA engine does; it reaches no memory of the host. */
static void fill_capabilities(uint32_t *capabilities, const aclrtAtomicOperation *operations,
                              uint32_t count, uint32_t dma)
{
    for (uint32_t i = 0; i < count; i++)
        capabilities[i] = operations[i] >= ACL_RT_ATOMIC_OPERATION_DMA_ADD &&
                                  operations[i] <= ACL_RT_ATOMIC_OPERATION_DMA_MAX
                              ? dma
                              : 0;
}

aclError aclrtDeviceGetHostAtomicCapabilities(uint32_t *capabilities,
                                              const aclrtAtomicOperation *operations,
                                              const uint32_t count, int32_t deviceId)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    RETURN_IF_ERROR(check_operations(__func__, capabilities, operations, count));
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    fill_capabilities(capabilities, operations, count, 0);
    return 0;
}

aclError aclrtDeviceGetP2PAtomicCapabilities(uint32_t *capabilities,
                                             const aclrtAtomicOperation *operations,
                                             const uint32_t count, int32_t srcDeviceId,
                                             int32_t dstDeviceId)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    RETURN_IF_ERROR(check_operations(__func__, capabilities, operations, count));
    RETURN_IF_ERROR(device_get(__func__, srcDeviceId, &s, &device));
    RETURN_IF_ERROR(device_of_user_id(s, __func__, dstDeviceId, &device));
    if (srcDeviceId == dstDeviceId)
        return error_set(ACL_ERROR_RT_INVALID_DEVICEID, "%s: both devices are %d", __func__,
                         srcDeviceId);
    fill_capabilities(capabilities, operations, count, DMA_CAPABILITIES);
    return 0;
}
