/* check: race */
/* Resetting device 0 waits for its stream, and device 1 may use the host memory then. */
#include "check.h"

static _Alignas(4096) char array[BYTES];

int main(void)
{
    void *to, *shared;

    start_device();
    CALL(aclrtHostRegister(array, BYTES, ACL_HOST_REGISTER_MAPPED, &shared));
    CALL(aclrtSetDevice(1));
    to = NEW_BLANK(BYTES);
    CALL(aclrtSetDevice(0));
    /* check: written by */
    CALL(aclrtMemsetAsync(shared, BYTES, 1, BYTES, NULL));
    if (!WRONG)
        CALL(aclrtResetDeviceForce(0)); /* it was set twice */
    CALL(aclrtSetDevice(1));
    /* check: read by */
    CALL(aclrtMemcpyAsync(to, BYTES, shared, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    /* check: missing must wait for an event that is recorded after the write */
    CALL(aclrtSynchronizeStream(NULL));
    CALL(aclrtFree(to));
    CALL(aclrtResetDevice(1));
    if (WRONG)
        CALL(aclrtResetDeviceForce(0));
    CALL(aclrtHostUnregister(array));
    CALL(aclFinalize());
}
