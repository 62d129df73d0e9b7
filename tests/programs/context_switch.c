/* Two contexts on two devices, and a thread that goes from one to the other. */
#include "expect.h"

int main(void)
{
    aclrtContext first, second, now;
    aclrtStream stream;
    aclrtEvent event;
    int32_t device;

    CALL(aclInit(NULL));
    CALL(aclrtCreateContext(&first, 0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateContext(&second, 1));
    CALL(aclrtGetDevice(&device));
    EXPECT(device == 1);
    CALL(aclrtCreateEvent(&event));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordEvent(event, stream));
    CALL(aclrtSetCurrentContext(first));
    CALL(aclrtGetCurrentContext(&now));
    EXPECT(now == first);
    CALL(aclrtGetDevice(&device));
    EXPECT(device == 0);
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyContext(second));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSetCurrentContext(second));
    CALL(aclrtDestroyContext(first));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&now));
    puts("there and back");
    return aclFinalize();
}
