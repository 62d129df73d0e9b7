/* A second stream that begins when the first has made its data. */
#include "expect.h"

#include <acl/acl_npud.h>

int main(void)
{
    aclrtStream producer, consumer;
    aclrtEvent made;
    char *host;
    void *device;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&producer));
    CALL(aclrtCreateStream(&consumer));
    CALL(aclrtCreateEvent(&made));
    CALL(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost((void **)&host, 64));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEvent(consumer, made)); /* not recorded */
    CALL(aclrtMemset(device, 64, 'a', 64));
    CALL(aclnpudLaunchDelay(20000, ACL_SUCCESS, producer));
    CALL(aclrtMemsetAsync(device, 64, 'b', 64, producer));
    CALL(aclrtRecordEvent(made, producer));
    CALL(aclrtStreamWaitEvent(consumer, made));
    CALL(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    CALL(aclrtSynchronizeStream(consumer));
    EXPECT(host[0] == 'b' && host[63] == 'b');
    CALL(aclrtFreeHost(host));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyEvent(made));
    CALL(aclrtDestroyStream(producer));
    CALL(aclrtDestroyStream(consumer));
    CALL(aclrtResetDevice(0));
    puts("the consumer came after the producer");
    return aclFinalize();
}
