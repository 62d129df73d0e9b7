// check: race
// A copy inside the device takes what another stream's copy has not yet brought.
#include "check.h"

int main()
{
    start_device();
    aclrtStream transfer = NEW_STREAM(), compute = NEW_STREAM();
    aclrtEvent there = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *other = NEW_BLANK(BYTES), *host = NEW_HOST(BYTES);

    // check: written by
    CALL(aclrtMemcpyAsync(memory, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, transfer));
    CALL(aclrtRecordEvent(there, transfer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(compute, there));
    // check: read by
    CALL(aclrtMemcpyAsync(other, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, compute));
    // check: missing must wait for an event that is recorded after the write
    end_streams(transfer, compute);
    CALL(aclrtFree(memory));
    CALL(aclrtFree(other));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(there));
    end_device();
}
