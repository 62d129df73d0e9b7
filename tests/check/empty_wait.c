/* check: empty-wait */
/* A stream waits for an event that nobody has recorded. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC);

    if (!WRONG)
        CALL(aclrtRecordEvent(event, producer));
    CALL(aclrtStreamWaitEvent(consumer, event)); /* check: waits in */
    end_streams(producer, consumer);
    CALL(aclrtDestroyEvent(event));
    end_device();
}
