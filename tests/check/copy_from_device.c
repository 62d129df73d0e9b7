/* check: race */
/* A copy to the device fills again what a copy from the device still reads. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream up = NEW_STREAM(), down = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *in = NEW_HOST(BYTES), *out = NEW_HOST(BYTES);

    if (WRONG)
        CALL(aclrtRecordEvent(event, down)); /* check: missing names */
    /* check: read by */
    CALL(aclrtMemcpyAsync(out, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, down));
    if (!WRONG)
        CALL(aclrtRecordEvent(event, down));
    CALL(aclrtStreamWaitEvent(up, event)); /* check: missing names */
    /* check: written by */
    CALL(aclrtMemcpyAsync(memory, BYTES, in, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, up));
    /* check: missing must wait for an event that is recorded after the read */
    end_streams(up, down);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(in));
    CALL(aclrtFreeHost(out));
    CALL(aclrtDestroyEvent(event));
    end_device();
}
