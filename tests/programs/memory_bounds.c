/* Mistakes with sizes and addresses that are answered and not carried out. */
#include "expect.h"

int main(void)
{
    char host[256] = {0};
    void *device;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&device, 128, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpy(device, 1 << 20, host, 256, ACL_MEMCPY_HOST_TO_DEVICE));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpy(host, 256, (char *)device + 64, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree((char *)device + 64));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(device));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(host, 256, device, 128, (aclrtMemcpyKind)8));
    CALL(aclrtFree(device));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpy(host, 256, device, 128, ACL_MEMCPY_DEVICE_TO_HOST));
    CALL(aclrtResetDevice(0));
    puts("six mistakes");
    return aclFinalize();
}
