/* check: race */
/* The wrong stream is synchronised before the host writes what a task still reads. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(WRONG ? other : stream));
    /* check: written by */
    CALL(aclrtMemset(memory, BYTES, 1, BYTES));
    /* check: missing must synchronise */
    end_streams(stream, other);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
