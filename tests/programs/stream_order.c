/* Tasks of a stream are done one after the other. */
#include "expect.h"

enum { SIZE = 1 << 20, ROUNDS = 100 };

int main(void)
{
    aclrtStream stream;
    uint8_t *host;
    void *device;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost((void **)&host, SIZE));
    for (int i = 0; i < ROUNDS; i++)
        CALL(aclrtMemsetAsync(device, SIZE, i, SIZE, stream));
    CALL(aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < SIZE; i++)
        EXPECT(host[i] == ROUNDS - 1);
    CALL(aclrtFreeHost(host));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("the last of %d sets is what was copied\n", ROUNDS);
    return aclFinalize();
}
