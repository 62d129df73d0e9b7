// check: empty-wait
// The host synchronises with a default event that was reset since its record.
#include "check.h"

int main()
{
    aclrtEvent event;

    start_device();
    aclrtStream stream = NEW_STREAM();

    CALL(aclrtCreateEvent(&event));
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtResetEvent(event, stream)); // check: reset by
    CALL(aclrtSynchronizeStream(stream));
    if (!WRONG)
        CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtSynchronizeEvent(event)); // check: waits in
    end_stream(stream);
    CALL(aclrtDestroyEvent(event));
    end_device();
}
