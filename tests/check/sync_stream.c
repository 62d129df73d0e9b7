/* check: race */
/* A copy without a stream waits for no stream. */
#include "check.h"

int main(void)
{
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
