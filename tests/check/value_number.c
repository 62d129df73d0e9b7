/* check: race */
/* The consumer's stream waits for the first number that is written, the data is behind it. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    void *word = NEW_MEMORY(64), *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtValueWait(word, WRONG ? 1 : 2, ACL_STREAM_WAIT_VALUE_GEQ, consumer));
    CALL(aclrtValueWrite(word, 1, 0, producer));
    CALL(aclrtSynchronizeStream(producer));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtValueWrite(word, 2, 0, producer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFree(word));
    CALL(aclrtFreeHost(host));
    end_device();
}
