/* check: race */
/* The consumer's stream goes on when the callback has returned; without BLOCK, at once. */
#include "check.h"

#include <pthread.h>

static void do_nothing(void *unused)
{
    (void)unused;
}

int main(void)
{
    const aclrtCallbackBlockType block = WRONG ? ACL_CALLBACK_NO_BLOCK : ACL_CALLBACK_BLOCK;

    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtSubscribeReport(pthread_self(), consumer));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtLaunchCallback(do_nothing, NULL, block, consumer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    CALL(aclrtSynchronizeStream(producer));
    CALL(aclrtProcessReport(-1));
    CALL(aclrtSynchronizeStream(consumer));
    CALL(aclrtUnSubscribeReport(pthread_self(), consumer));
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
