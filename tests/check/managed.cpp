// check: race
// Managed memory has one address for the program and its streams, and races as other memory.
#include "check.h"

int main()
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *managed = NEW(void *, aclrtMemAllocManaged, BYTES, ACL_RT_MEM_ATTACH_GLOBAL);
    void *out = NEW_BLANK(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(managed, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, written));
    // check: read by
    CALL(aclrtMemcpyAsync(out, BYTES, managed, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, consumer));
    // check: missing must wait for an event that is recorded after the write
    end_streams(producer, consumer);
    CALL(aclrtFree(managed));
    CALL(aclrtFree(out));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
