/* Several callbacks for failures, of the program and of its libraries. */
#include "expect.h"

#include <acl/acl_npud.h>

static int first, second;

static void count_first(aclrtExceptionInfo *info)
{
    EXPECT(aclrtGetErrorCodeFromExceptionInfo(info) == ACL_ERROR_RT_AICPU_EXCEPTION);
    first++;
}

static void count_second(aclrtExceptionInfo *info)
{
    EXPECT(aclrtGetErrorCodeFromExceptionInfo(info) == ACL_ERROR_RT_AICPU_EXCEPTION);
    second++;
}

int main(void)
{
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtExceptionInfoCallbackRegister(count_first));
    CALL(aclrtExceptionInfoCallbackRegister(count_second));
    CALL(aclrtExceptionInfoCallbackRegister(count_second));
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICPU_EXCEPTION, NULL));
    FAILS(ACL_ERROR_RT_AICPU_EXCEPTION, aclrtSynchronizeStream(NULL));
    EXPECT(first == 1 && second == 1);
    CALL(aclrtExceptionInfoCallbackUnregister(count_first));
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICPU_EXCEPTION, NULL));
    FAILS(ACL_ERROR_RT_AICPU_EXCEPTION, aclrtSynchronizeStream(NULL));
    EXPECT(first == 1 && second == 2);
    CALL(aclrtExceptionInfoCallbackUnregister(count_second));
    CALL(aclrtResetDevice(0));
    printf("%d and %d calls\n", first, second);
    return aclFinalize();
}
