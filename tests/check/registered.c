/* check: race */
/* Host memory of the program, registered: two streams use it. */
#include "check.h"

static _Alignas(4096) char array[BYTES];

int main(void)
{
    void *shared;

    start_device();
    aclrtStream down = NEW_STREAM(), up = NEW_STREAM();
    aclrtEvent there = NEW_EVENT(ACL_EVENT_SYNC);
    void *from = NEW_MEMORY(BYTES), *to = NEW_BLANK(BYTES);

    CALL(aclrtHostRegister(array, BYTES, ACL_HOST_REGISTER_MAPPED, &shared));
    /* check: written by */
    CALL(aclrtMemcpyAsync(shared, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, down));
    CALL(aclrtRecordEvent(there, down));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(up, there));
    /* check: read by */
    CALL(aclrtMemcpyAsync(to, BYTES, shared, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, up));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(down, up);
    CALL(aclrtHostUnregister(array));
    CALL(aclrtFree(from));
    CALL(aclrtFree(to));
    CALL(aclrtDestroyEvent(there));
    end_device();
}
