// Access of a second device to memory that is mapped for the first one.
#include "expect.h"

int main()
{
    constexpr size_t bytes = 2 << 20;
    aclrtMemLocation first = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtMemLocation second = {1, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtPhysicalMemProp prop = {};
    aclrtDrvMemHandle handle = nullptr;
    void *at = nullptr, *there = nullptr;
    uint64_t rights = 9;
    char byte = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location = first;
    CALL(aclrtMallocPhysical(&handle, bytes, &prop, 0));
    CALL(aclrtReserveMemAddress(&at, bytes, 0, nullptr, 0));
    CALL(aclrtMapMem(at, bytes, 0, handle, 0));
    CALL(aclrtMemset(at, bytes, 'x', bytes));
    CALL(aclrtMemGetAccess(at, &first, &rights));
    EXPECT(rights == ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    CALL(aclrtMemGetAccess(at, &second, &rights));
    EXPECT(rights == ACL_RT_MEM_ACCESS_FLAGS_NONE);

    aclrtMemAccessDesc access = {};
    access.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    access.location = second;
    CALL(aclrtMemSetAccess(at, bytes, &access, 1));
    CALL(aclrtMemGetAccess(at, &second, &rights));
    EXPECT(rights == ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    CALL(aclrtSetDevice(1));
    CALL(aclrtMalloc(&there, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(there, bytes, at, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CALL(aclrtMemcpy(&byte, 1, there, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(byte == 'x');
    CALL(aclrtFree(there));
    CALL(aclrtUnmapMem(at));
    CALL(aclrtReleaseMemAddress(at));
    CALL(aclrtFreePhysical(handle));
    CALL(aclrtResetDevice(1));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("device 1 has read memory of device 0");
}
