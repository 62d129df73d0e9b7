/* check: race */
/* The producer writes the buffer again while the consumer's stream may still read it. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC), through = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    CALL(aclrtStreamWaitEvent(consumer, written));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    CALL(aclrtRecordEvent(through, consumer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(producer, through));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 2, BYTES, producer));
    /* check: missing must wait for an event that is recorded after the read */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(written));
    CALL(aclrtDestroyEvent(through));
    end_device();
}
