// check: race
// An event that has its time tells of what was before its record.
#include "check.h"

int main()
{
    uint64_t microseconds;
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent early = NEW_EVENT(ACL_EVENT_TIME_LINE), late = NEW_EVENT(ACL_EVENT_TIME_LINE);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtRecordEvent(early, stream));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtRecordEvent(late, stream));
    while (aclrtEventGetTimestamp(WRONG ? early : late, &microseconds) != ACL_SUCCESS)
        ;
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing must synchronise
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(early));
    CALL(aclrtDestroyEvent(late));
    end_device();
}
