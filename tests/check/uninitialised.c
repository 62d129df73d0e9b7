/* check: uninitialised */
/* A task reads memory that nothing has written. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_BLANK(BYTES), *host = NEW_HOST(BYTES); /* check: memory allocated */

    if (!WRONG)
        CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
