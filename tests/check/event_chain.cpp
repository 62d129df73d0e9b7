// check: race
// Three streams in a row: the middle one records before it waits, so it passes on nothing.
#include "check.h"

int main()
{
    start_device();
    aclrtStream first = NEW_STREAM(), middle = NEW_STREAM(), last = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC), passed = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, first));
    CALL(aclrtRecordEvent(written, first));
    if (WRONG)
        CALL(aclrtRecordEvent(passed, middle));
    CALL(aclrtStreamWaitEvent(middle, written));
    if (!WRONG)
        CALL(aclrtRecordEvent(passed, middle));
    CALL(aclrtStreamWaitEvent(last, passed));
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, last));
    // check: missing must wait for an event that is recorded after the write
    end_streams(first, last);
    end_stream(middle);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(written));
    CALL(aclrtDestroyEvent(passed));
    end_device();
}
