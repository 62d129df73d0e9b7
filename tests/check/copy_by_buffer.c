/* check: race */
/* The source of HOST_TO_BUF_TO_DEVICE may be used again when the call returns. */
#include "check.h"

int main(void)
{
    const aclrtMemcpyKind kind =
        WRONG ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;

    start_device();
    aclrtStream up = NEW_STREAM(), down = NEW_STREAM();
    void *from = NEW_MEMORY(BYTES), *to = NEW_BLANK(BYTES), *host = NEW_HOST(BYTES);

    /* check: read by */
    CALL(aclrtMemcpyAsync(to, BYTES, host, BYTES, kind, up));
    /* check: written by */
    CALL(aclrtMemcpyAsync(host, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, down));
    /* check: missing must wait for an event that is recorded after the read */
    end_streams(up, down);
    CALL(aclrtFree(from));
    CALL(aclrtFree(to));
    CALL(aclrtFreeHost(host));
    end_device();
}
