// check: race
// What is added to a sum is written by another stream.
#include "check.h"

constexpr aclrtReduceKind ADD = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM;

int main()
{
    start_device();
    aclrtStream producer = NEW_STREAM(), adder = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *sum = NEW_MEMORY(BYTES), *more = NEW_MEMORY(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(more, BYTES, 0, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(adder, written));
    // check: read by
    CALL(aclrtReduceAsync(sum, more, BYTES, ADD, ACL_FLOAT, adder, nullptr));
    // check: missing must wait for an event that is recorded after the write
    end_streams(producer, adder);
    CALL(aclrtFree(sum));
    CALL(aclrtFree(more));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
