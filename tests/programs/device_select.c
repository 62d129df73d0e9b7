/* Each device once: set, ask, reset. */
#include "expect.h"

int main(void)
{
    uint32_t count;
    int32_t device;

    CALL(aclInit(NULL));
    CALL(aclrtGetDeviceCount(&count));
    EXPECT(count >= 2);
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
    for (int32_t i = 0; i < (int32_t)count; i++) {
        CALL(aclrtSetDevice(i));
        CALL(aclrtGetDevice(&device));
        EXPECT(device == i);
    }
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice((int32_t)count));
    for (int32_t i = 0; i < (int32_t)count; i++)
        CALL(aclrtResetDevice(i));
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(0));
    printf("%u devices\n", count);
    return aclFinalize();
}
