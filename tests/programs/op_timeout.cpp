// A limit for kernels: what runs longer is cut off, and fails.
#include "expect.h"

#include <acl/acl_npud.h>
#include <acl/acl_rt_api.h>

int main()
{
    uint64_t actual = 0, interval = 0;
    uint32_t limit = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetOpTimeOutInterval(&interval));
    EXPECT(interval == 100000);
    CALL(aclrtSetOpExecuteTimeOut(150000, &actual)); // microseconds
    EXPECT(actual == 200000);
    CALL(aclrtGetOpExecuteTimeout(&limit));
    EXPECT(limit == 200);
    CALL(aclnpudLaunchDelay(60000000, ACL_SUCCESS, nullptr));
    FAILS(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(nullptr));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("cut off after %u ms\n", limit);
}
