/* check: race */
/* A query that says NOT_READY is no synchronise, though the program has asked. */
#include "check.h"

int main(void)
{
    aclrtStreamStatus status;
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    /* As long as the longest pause of a loaded machine: the query must come before the end. */
    CALL(aclnpudLaunchDelay(WRONG ? 2000000 : 0, ACL_SUCCESS, stream));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    do {
        CALL(aclrtStreamQuery(stream, &status));
    } while (status != ACL_STREAM_STATUS_COMPLETE && !WRONG);
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
