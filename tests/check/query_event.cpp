// check: race
// A query of an event that says COMPLETE tells of what was before its record.
#include "check.h"

int main()
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent early = NEW_EVENT(ACL_EVENT_SYNC), late = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtRecordEvent(early, stream));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtRecordEvent(late, stream));
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        CALL(aclrtQueryEventStatus(WRONG ? early : late, &status));
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing must synchronise
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(early));
    CALL(aclrtDestroyEvent(late));
    end_device();
}
