/* check: empty-wait */
/* The host synchronises with an event that nobody has recorded: the call returns at once. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC);

    if (!WRONG)
        CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtSynchronizeEvent(event)); /* check: waits in */
    end_stream(stream);
    CALL(aclrtDestroyEvent(event));
    end_device();
}
