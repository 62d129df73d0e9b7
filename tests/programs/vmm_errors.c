/* Undoing in the wrong order, and sizes that do not fit, are errors that leave all as it is. */
#include "expect.h"

int main(void)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    size_t unit, bytes;
    aclrtDrvMemHandle handle, other;
    void *at;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit));
    bytes = 2 * unit;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocPhysical(&handle, bytes + 1, &prop, 0));
    CALL(aclrtMallocPhysical(&handle, bytes, &prop, 0));
    CALL(aclrtMallocPhysical(&other, bytes, &prop, 0));
    CALL(aclrtReserveMemAddress(&at, bytes, 0, NULL, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMapMem(at, unit, 0, handle, 0));
    CALL(aclrtMapMem(at, bytes, 0, handle, 0));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtMapMem(at, bytes, 0, other, 0));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtReleaseMemAddress(at));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtUnmapMem((char *)at + unit));
    CALL(aclrtMemset(at, bytes, 1, bytes));
    CALL(aclrtUnmapMem(at));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(at, bytes, 1, bytes));
    CALL(aclrtReleaseMemAddress(at));
    CALL(aclrtFreePhysical(other));
    CALL(aclrtFreePhysical(handle));
    CALL(aclrtResetDevice(0));
    printf("units of %zu bytes\n", unit);
    return aclFinalize();
}
