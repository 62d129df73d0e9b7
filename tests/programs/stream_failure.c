/* A failed task: told once where the stream goes on, each time where its context stops. */
#include "expect.h"

#include <acl/acl_npud.h>

int main(void)
{
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    CALL(aclrtSynchronizeStream(stream));

    CALL(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclnpudLaunchDelay(0, ACL_SUCCESS, stream));
    CALL(aclrtResetDeviceForce(0));

    CALL(aclrtSetDevice(0));
    CALL(aclrtSynchronizeStream(NULL));
    CALL(aclrtResetDevice(0));
    puts("told, stopped, and new after a reset");
    return aclFinalize();
}
