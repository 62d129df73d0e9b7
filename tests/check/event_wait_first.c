/* check: race */
/* In the second round the wait comes before the record, so it means the record of the first. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *first = NEW_MEMORY(BYTES), *second = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtMemsetAsync(first, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer)); /* check: missing names */
    CALL(aclrtStreamWaitEvent(consumer, written));
    CALL(aclrtMemcpyAsync(host, BYTES, first, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: written by */
    CALL(aclrtMemsetAsync(second, BYTES, 2, BYTES, producer));
    if (!WRONG)
        CALL(aclrtRecordEvent(written, producer));
    CALL(aclrtStreamWaitEvent(consumer, written)); /* check: missing names */
    CALL(aclrtRecordEvent(written, producer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, second, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(first));
    CALL(aclrtFree(second));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
