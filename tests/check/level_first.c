/* check: race */
/* check: empty-wait */
/* A wait before the record: the level of a sync event holds it, another event does not. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = WRONG ? NEW_EVENT(ACL_EVENT_SYNC) : NEW_LEVEL(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtStreamWaitEvent(consumer, written)); /* check: empty-wait: waits in */
    /* check: race: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    /* check: race: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: race: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
