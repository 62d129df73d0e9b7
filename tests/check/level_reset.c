/* check: race */
/* The level of a sync event is still up from the first round, so the second does not wait. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent level = NEW_LEVEL(ACL_EVENT_SYNC);
    void *first = NEW_MEMORY(BYTES), *second = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtMemsetAsync(first, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(level, producer));
    CALL(aclrtStreamWaitEvent(consumer, level));
    if (!WRONG)
        CALL(aclrtResetEvent(level, consumer));
    CALL(aclrtMemcpyAsync(host, BYTES, first, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    CALL(aclrtSynchronizeStream(consumer));
    CALL(aclrtStreamWaitEvent(consumer, level));
    /* check: written by */
    CALL(aclrtMemsetAsync(second, BYTES, 2, BYTES, producer));
    CALL(aclrtRecordEvent(level, producer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, second, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(first));
    CALL(aclrtFree(second));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(level));
    end_device();
}
