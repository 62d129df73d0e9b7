/* check: race */
/* A word in host memory of the program, which two streams use; it is written too early. */
#include "check.h"

static _Alignas(4096) uint64_t words[512];

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    void *word, *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtHostRegister(words, sizeof(words), ACL_HOST_REGISTER_MAPPED, &word));
    if (WRONG)
        CALL(aclrtValueWrite(word, 1, 0, producer));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    if (!WRONG)
        CALL(aclrtValueWrite(word, 1, 0, producer));
    CALL(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, consumer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for */
    end_streams(producer, consumer);
    CALL(aclrtHostUnregister(words));
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
