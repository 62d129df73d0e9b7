/* check: race */
/* The host synchronises with an event that was recorded before the write. */
#include "check.h"

int main(void)
{
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES);

    if (WRONG)
        CALL(aclrtRecordEvent(event, stream));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtSynchronizeEvent(event));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(event));
    end_device();
}
