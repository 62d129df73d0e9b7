/* check: race */
/* What the thread has synchronised is done for what it submits later, without an event. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(producer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
