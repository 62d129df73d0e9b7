/* check: race */
/* A sync event whose level is raised before the work that it stands for. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent level = NEW_LEVEL(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    if (WRONG)
        CALL(aclrtRecordEvent(level, producer)); /* check: missing names */
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    if (!WRONG)
        CALL(aclrtRecordEvent(level, producer));
    CALL(aclrtStreamWaitEvent(consumer, level)); /* check: missing names */
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(level));
    end_device();
}
