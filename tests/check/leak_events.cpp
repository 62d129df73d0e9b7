// check: leak
// Events that a loop makes are one finding, with their number.
#include "check.h"

int main()
{
    aclrtEvent events[5];

    start_device();
    for (aclrtEvent &event : events)
        event = NEW_EVENT(ACL_EVENT_SYNC); // check: made by
    // check: text 4
    for (int i = WRONG ? 4 : 0; i < 5; i++)
        CALL(aclrtDestroyEvent(events[i]));
}
