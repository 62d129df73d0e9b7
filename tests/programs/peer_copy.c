/* A copy from device 0 to device 1, which must have been let in. */
#include "expect.h"

#include <string.h>

int main(void)
{
    char text[] = "from device 0", got[sizeof(text)];
    void *here, *there;
    int32_t can, enabled;

    CALL(aclInit(NULL));
    CALL(aclrtDeviceCanAccessPeer(&can, 1, 0));
    EXPECT(can == 1);
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&here, 4096, ACL_MEM_MALLOC_NORMAL_ONLY_P2P));
    CALL(aclrtMemcpy(here, 4096, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtSetDevice(1));
    CALL(aclrtMalloc(&there, 4096, ACL_MEM_MALLOC_NORMAL_ONLY_P2P));
    EXPECT(aclrtMemcpy(there, 4096, here, sizeof(text), ACL_MEMCPY_DEVICE_TO_DEVICE) !=
           ACL_SUCCESS);
    CALL(aclrtDeviceEnablePeerAccess(0, 0));
    CALL(aclrtDevicePeerAccessStatus(1, 0, &enabled));
    EXPECT(enabled == 1);
    CALL(aclrtMemcpy(there, 4096, here, sizeof(text), ACL_MEMCPY_DEVICE_TO_DEVICE));
    CALL(aclrtMemcpy(got, sizeof(got), there, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, text) == 0);
    CALL(aclrtDeviceDisablePeerAccess(0));
    CALL(aclrtFree(there));
    CALL(aclrtFree(here));
    CALL(aclrtResetDevice(1));
    CALL(aclrtResetDevice(0));
    puts(got);
    return aclFinalize();
}
