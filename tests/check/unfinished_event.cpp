// check: unfinished
// The process waits for an event that is in the middle of what the stream has.
#include "check.h"

int main()
{
    start_device();
    aclrtEvent middle = NEW_EVENT(ACL_EVENT_SYNC);

    CALL(aclnpudLaunchDelay(100, ACL_SUCCESS, nullptr));
    if (WRONG)
        CALL(aclrtRecordEvent(middle, nullptr));
    CALL(aclnpudLaunchDelay(200, ACL_SUCCESS, nullptr)); // check: last task
    if (!WRONG)
        CALL(aclrtRecordEvent(middle, nullptr));
    CALL(aclrtSynchronizeEvent(middle));
    CALL(aclrtDestroyEvent(middle));
}
