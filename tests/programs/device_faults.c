/* The check for faults of a training loop: there are none, and none to repair. */
#include "expect.h"

#include <string.h>

int main(void)
{
    aclrtMemUceInfo faults[4];
    aclrtErrorInfo error;
    size_t n = 9;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetErrorVerbose(0, &error));
    EXPECT(error.errorType == ACL_RT_NO_ERROR);
    CALL(aclrtRepairError(0, &error));
    CALL(aclrtGetMemUceInfo(0, faults, 4, &n));
    EXPECT(n == 0);
    memset(faults, 0, sizeof(faults));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemUceRepair(0, faults, 1));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetErrorVerbose(99, &error));
    CALL(aclrtResetDevice(0));
    puts("no faults");
    return aclFinalize();
}
