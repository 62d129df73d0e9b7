/* check: unfinished */
/* The process ends with a task that nothing has waited for. */
#include "check.h"

int main(void)
{
    start_device();
    CALL(aclnpudLaunchDelay(1000, ACL_SUCCESS, NULL)); /* check: last task */
    if (!WRONG)
        CALL(aclrtSynchronizeStream(NULL));
}
