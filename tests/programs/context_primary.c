/* The primary context of a device, its default stream, and when it goes. */
#include "expect.h"

int main(void)
{
    aclrtContext first, second;
    aclrtStream stream;
    int32_t active;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&first));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&second));
    EXPECT(first == second);
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(first));
    CALL(aclrtCtxGetCurrentDefaultStream(&stream));
    CALL(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclrtGetPrimaryCtxState(0, NULL, &active));
    EXPECT(active == 1);
    CALL(aclrtResetDevice(0));
    CALL(aclrtGetPrimaryCtxState(0, NULL, &active));
    EXPECT(active == 0);
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeStream(NULL));
    puts("set twice, reset twice");
    return aclFinalize();
}
