/* check: race */
/* The word is not written by aclrtValueWrite(), but set by a task: too early, or in time. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    void *word = NEW_MEMORY(64), *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    if (WRONG)
        CALL(aclrtMemsetD32Async(word, 64, 1, 1, producer));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    if (!WRONG)
        CALL(aclrtMemsetD32Async(word, 64, 1, 1, producer));
    CALL(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, consumer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFree(word));
    CALL(aclrtFreeHost(host));
    end_device();
}
