/* check: race */
/* The notify orders the consumer's stream behind the write, if it is waited for. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtNotify notify = NEW_NOTIFY();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordNotify(notify, producer));
    CALL(aclrtWaitAndResetNotify(notify, WRONG ? producer : consumer, 0));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyNotify(notify));
    end_device();
}
