/* Whether numbers have overflowed, as mixed precision training asks after each step. */
#include "expect.h"

enum { STATUS = 64 };

int main(void)
{
    char status[STATUS];
    aclrtStream stream;
    void *device, *flags;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, STATUS, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int step = 0; step < 3; step++) {
        CALL(aclrtResetOverflowStatus(stream));
        CALL(aclrtMemsetAsync(device, STATUS, 0xFF, STATUS, stream));
        CALL(aclrtGetOverflowStatus(device, STATUS, stream));
        CALL(aclrtSynchronizeStream(stream));
        CALL(aclrtMemcpy(status, STATUS, device, STATUS, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int i = 0; i < STATUS; i++)
            EXPECT(status[i] == 0);
    }
    CALL(aclrtGetFloatOverflowStatus(device, STATUS, stream));
    CALL(aclrtResetFloatOverflowStatus(stream));
    CALL(aclrtNpuGetFloatOverFlowStatus(device, STATUS, 0, stream));
    CALL(aclrtNpuClearFloatOverFlowStatus(0, stream));
    CALL(aclrtCtxGetFloatOverflowAddr(&flags));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetOverflowStatus(device, STATUS / 2, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("nothing has overflowed");
    return aclFinalize();
}
