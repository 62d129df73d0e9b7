// check: race
// A default event: the wait means the record that is the latest at the call.
#include "check.h"

int main()
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent event = NEW(aclrtEvent, aclrtCreateEvent);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtRecordEvent(event, producer)); // check: missing names
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    if (!WRONG)
        CALL(aclrtRecordEvent(event, producer));
    CALL(aclrtStreamWaitEvent(consumer, event)); // check: missing names
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    // check: missing must wait for an event that is recorded after the write
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(event));
    end_device();
}
