/* check: race */
/* The default stream waits for no other stream. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream transfer = NEW_STREAM();
    aclrtEvent there = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES), *out = NEW_HOST(BYTES);

    /* check: written by */
    CALL(aclrtMemcpyAsync(memory, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, transfer));
    CALL(aclrtRecordEvent(there, transfer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(NULL, there));
    /* check: read by */
    CALL(aclrtMemcpyAsync(out, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
    /* check: missing must wait for an event that is recorded after the write */
    CALL(aclrtSynchronizeStream(NULL));
    end_stream(transfer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtFreeHost(out));
    CALL(aclrtDestroyEvent(there));
    end_device();
}
