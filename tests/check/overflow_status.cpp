// check: race
// The overflow status that one stream stores and another one copies.
#include "check.h"

constexpr size_t size = 64;

int main()
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent stored = NEW_EVENT(ACL_EVENT_SYNC);
    void *status = NEW_MEMORY(size), *host = NEW_HOST(size);

    // check: written by
    CALL(aclrtGetOverflowStatus(status, size, producer));
    CALL(aclrtRecordEvent(stored, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, stored));
    // check: read by
    CALL(aclrtMemcpyAsync(host, size, status, size, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    // check: missing must wait for an event that is recorded after the write
    end_streams(producer, consumer);
    CALL(aclrtFree(status));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(stored));
    end_device();
}
