/* check: race */
/* The host fills memory while a task reads it: a copy without a stream is the thread's. */
#include "check.h"

int main(void)
{
    char text[BYTES] = "new";

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    /* check: written by */
    CALL(aclrtMemcpy(memory, BYTES, text, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
