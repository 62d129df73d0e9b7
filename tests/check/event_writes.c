/* check: race */
/* Two streams write the same bytes: both lines are told as writes. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream first = NEW_STREAM(), second = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, first));
    CALL(aclrtRecordEvent(written, first));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(second, written));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 2, BYTES, second));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(first, second);
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
