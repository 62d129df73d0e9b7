/* Memory that is set, at once and by a stream. */
#include "expect.h"

int main(void)
{
    uint8_t got[256];
    aclrtStream stream;
    void *device;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(device, 256, 0x11, 256));
    CALL(aclrtMemsetAsync((char *)device + 64, 192, 0x1FF, 128, stream)); /* the low 8 bits */
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtMemcpy(got, 256, device, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < 256; i++)
        EXPECT(got[i] == (i >= 64 && i < 192 ? 0xFF : 0x11));
    CALL(aclrtMemset(device, 256, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(device, 128, 0, 256));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMemset(NULL, 128, 0, 64));
    CALL(aclrtFree(device));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(device, 256, 0, 256));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("set in part");
    return aclFinalize();
}
