/* check: ignored */
/* A task fails, and no call has told: the stream is destroyed without a synchronise. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();

    /* check: last task */
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_TIMEOUT, stream));
    if (!WRONG)
        FAILS(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(stream));
    (void)aclrtDestroyStream(stream);
    end_device();
}
