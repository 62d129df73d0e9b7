/* check: leak */
/* An event is left at the end. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC); /* check: made by */

    if (!WRONG)
        CALL(aclrtDestroyEvent(event));
}
