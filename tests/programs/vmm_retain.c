/* A second handle of what is mapped: the memory stays until both and the mapping are gone. */
#include "expect.h"

int main(void)
{
    const aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_NORMAL,
        .location = {1, ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    const size_t bytes = 2 << 20;
    aclrtDrvMemHandle handle, same;
    aclrtPhysicalMemProp got;
    void *at, *elsewhere;
    char byte;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(1));
    CALL(aclrtMallocPhysical(&handle, bytes, &prop, 0));
    CALL(aclrtReserveMemAddress(&at, bytes, 0, NULL, 0));
    CALL(aclrtReserveMemAddress(&elsewhere, bytes, 0, NULL, 0));
    CALL(aclrtMapMem(at, bytes, 0, handle, 0));
    CALL(aclrtMemset(at, bytes, 5, bytes));
    CALL(aclrtMemRetainAllocationHandle((char *)at + 4096, &same));
    CALL(aclrtFreePhysical(handle));
    CALL(aclrtUnmapMem(at));

    /* Its contents move to other addresses without a copy. */
    CALL(aclrtMapMem(elsewhere, bytes, 0, same, 0));
    CALL(aclrtMemcpy(&byte, 1, (char *)elsewhere + bytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(byte == 5);
    CALL(aclrtMemGetAllocationPropertiesFromHandle(same, &got));
    EXPECT(got.location.id == 1 && got.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(elsewhere));
    CALL(aclrtUnmapMem(elsewhere));
    CALL(aclrtFreePhysical(same));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical(same));
    CALL(aclrtReleaseMemAddress(elsewhere));
    CALL(aclrtReleaseMemAddress(at));
    CALL(aclrtResetDevice(1));
    printf("byte %d at another address\n", byte);
    return aclFinalize();
}
