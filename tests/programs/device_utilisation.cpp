// The load of a device, as monitors print it: nothing at first, something while it works.
#include "expect.h"

#include <acl/acl_npud.h>

int main()
{
    aclrtUtilizationInfo load = {};
    aclrtStream stream = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtGetDeviceUtilizationRate(1, &load));
    EXPECT(load.cubeUtilization == 0 && load.vectorUtilization == 0);
    EXPECT(load.aicpuUtilization == -1);                       // not known
    for (int i = 0; i < 5 && load.cubeUtilization == 0; i++) { // a busy host may look too late
        CALL(aclnpudLaunchDelay(300000, ACL_SUCCESS, stream));
        CALL(aclrtSynchronizeStream(stream));
        CALL(aclrtGetDeviceUtilizationRate(0, &load));
    }
    EXPECT(load.cubeUtilization > 0 && load.cubeUtilization <= 100);
    printf("%d percent\n", load.cubeUtilization);
    CALL(aclrtGetDeviceUtilizationRate(99, &load));
    EXPECT(load.cubeUtilization == -1);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
}
