/* Fewer cores for the kernels of a device, and of one stream. */
#include "expect.h"

int main(void)
{
    aclrtStream stream;
    uint32_t cores, all;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &all));
    CALL(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, all / 2));
    CALL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores));
    EXPECT(cores == all / 2);
    CALL(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 3));
    CALL(aclrtUseStreamResInCurrentThread(stream));
    CALL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores));
    EXPECT(cores == 3);
    CALL(aclrtUnuseStreamResInCurrentThread(stream));
    CALL(aclrtResetDeviceResLimit(0));
    CALL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores));
    EXPECT(cores == all);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 0));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("%u cores again\n", cores);
    return aclFinalize();
}
