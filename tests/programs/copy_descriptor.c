/* A copy inside the device by a descriptor that is made once and used often. */
#include "expect.h"

#include <stdlib.h>

int main(void)
{
    void *from, *to, *descriptor;
    aclrtStream stream;
    char got[128];
    size_t size;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&from, sizeof(got), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&to, sizeof(got), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &size));
    EXPECT(size > 0);
    CALL(aclrtMalloc(&descriptor, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtSetMemcpyDesc(descriptor, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, to, sizeof(got),
                            NULL));
    for (int round = 1; round <= 5; round++) {
        CALL(aclrtMemsetAsync(from, sizeof(got), round, sizeof(got), stream));
        CALL(aclrtMemcpyAsyncWithDesc(descriptor, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
        CALL(
            aclrtMemcpyAsync(got, sizeof(got), to, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST, stream));
        EXPECT(got[0] == round && got[127] == round);
    }
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &size));
    CALL(aclrtFree(descriptor));
    CALL(aclrtFree(to));
    CALL(aclrtFree(from));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("one descriptor, five copies");
    return aclFinalize();
}
