/* A copy that is asynchronous, or an error: page-locked memory is needed. */
#include "expect.h"

#include <string.h>

int main(void)
{
    char pageable[64] = "pageable";
    void *device, *pinned;
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost(&pinned, 64));
    strcpy(pinned, "pinned");
    FAILS(
        ACL_ERROR_RT_PARAM_INVALID,
        aclrtMemcpyAsyncWithCondition(device, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtMemcpyAsyncWithCondition(device, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtMemcpyAsync(pageable, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    EXPECT(strcmp(pageable, "pinned") == 0);
    CALL(aclrtFreeHost(pinned));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts(pageable);
    return aclFinalize();
}
