/* check: race */
/* A callback tells the host that the work before it is done. It is launched before the write. */
#include "check.h"

#include <pthread.h>

static void do_nothing(void *unused)
{
    (void)unused;
}

int main(void)
{
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtSubscribeReport(pthread_self(), stream));
    if (WRONG)
        CALL(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    CALL(aclrtProcessReport(-1));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtUnSubscribeReport(pthread_self(), stream));
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
