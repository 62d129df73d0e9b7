/* check: race */
/* A copy from the device fills the pinned memory that a copy to the device still reads. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream up = NEW_STREAM(), down = NEW_STREAM();
    aclrtEvent sent = NEW_EVENT(ACL_EVENT_SYNC);
    void *from = NEW_MEMORY(BYTES), *to = NEW_BLANK(BYTES), *host = NEW_HOST(BYTES);

    /* check: read by */
    CALL(aclrtMemcpyAsync(to, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, up));
    CALL(aclrtRecordEvent(sent, up));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(down, sent));
    /* check: written by */
    CALL(aclrtMemcpyAsync(host, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, down));
    /* check: missing must wait for an event that is recorded after the read */
    end_streams(up, down);
    CALL(aclrtFree(from));
    CALL(aclrtFree(to));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(sent));
    end_device();
}
