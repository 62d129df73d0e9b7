/* Physical memory of the host: a mapping that the program may use, too. */
#include "expect.h"

#include <string.h>

int main(void)
{
    const aclrtPhysicalMemProp prop = {
        .memAttr = ACL_DDR_MEM_NORMAL,
        .location = {0, ACL_MEM_LOCATION_TYPE_HOST},
    };
    const size_t bytes = 2 << 20;
    aclrtDrvMemHandle handle;
    aclrtPtrAttributes attributes;
    void *host, *device;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMallocPhysical(&handle, bytes, &prop, 0));
    CALL(aclrtReserveMemAddress(&host, bytes, 0, NULL, 0));
    CALL(aclrtMapMem(host, bytes, 0, handle, 0));
    CALL(aclrtPointerGetAttributes(host, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    CALL(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    strcpy(host, "of the host");
    CALL(aclrtMemcpy(device, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    memset(host, 0, bytes);
    CALL(aclrtMemcpy(host, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    puts(host);
    EXPECT(strcmp(host, "of the host") == 0);
    CALL(aclrtFree(device));
    CALL(aclrtUnmapMem(host));
    CALL(aclrtReleaseMemAddress(host));
    CALL(aclrtFreePhysical(handle));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
