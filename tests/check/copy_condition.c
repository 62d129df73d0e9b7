/* check: race */
/* A copy that must be asynchronous, from pinned memory that another stream fills. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream down = NEW_STREAM(), up = NEW_STREAM();
    aclrtEvent there = NEW_EVENT(ACL_EVENT_SYNC);
    void *from = NEW_MEMORY(BYTES), *to = NEW_BLANK(BYTES), *host = NEW_HOST(BYTES);

    /* check: written by */
    CALL(aclrtMemcpyAsync(host, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, down));
    CALL(aclrtRecordEvent(there, down));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(up, there));
    /* check: read by */
    CALL(aclrtMemcpyAsyncWithCondition(to, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, up));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(down, up);
    CALL(aclrtFree(from));
    CALL(aclrtFree(to));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(there));
    end_device();
}
