/* check: race */
/* The event is recorded again, in another stream, before the consumer's stream waits for it. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM(), other = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(event, producer));
    if (WRONG)
        CALL(aclrtRecordEvent(event, other));
    CALL(aclrtStreamWaitEvent(consumer, event));
    CALL(aclrtRecordEvent(event, other));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    end_stream(other);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(event));
    end_device();
}
