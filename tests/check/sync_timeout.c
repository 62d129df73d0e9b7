/* check: race */
/* A synchronise that ends by its time limit is none. */
#include "check.h"

int main(void)
{
    char got[BYTES];
    aclError ret;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    /* As long as the longest pause of a loaded machine: the limit must come before the end. */
    CALL(aclnpudLaunchDelay(WRONG ? 2000000 : 0, ACL_SUCCESS, stream));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    do {
        ret = aclrtSynchronizeStreamWithTimeout(stream, 1);
    } while (ret != ACL_SUCCESS && !WRONG);
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
