/* check: race */
/* A query that says COMPLETE is a synchronise of that stream, and of no other one. */
#include "check.h"

int main(void)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    while (status != ACL_STREAM_STATUS_COMPLETE)
        CALL(aclrtStreamQuery(WRONG ? other : stream, &status));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_streams(stream, other);
    CALL(aclrtFree(memory));
    end_device();
}
