/* check: race */
/* A copy by a descriptor, of what another stream writes. */
#include "check.h"

#define KIND ACL_MEMCPY_INNER_DEVICE_TO_DEVICE

int main(void)
{
    char descriptor[1024];
    size_t size;

    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *from = NEW_MEMORY(BYTES), *to = NEW_BLANK(BYTES);

    CALL(aclrtGetMemcpyDescSize(KIND, &size));
    EXPECT(size <= sizeof(descriptor));
    CALL(aclrtSetMemcpyDesc(descriptor, KIND, from, to, BYTES, NULL));
    /* check: written by */
    CALL(aclrtMemsetAsync(from, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, written));
    /* check: read by */
    CALL(aclrtMemcpyAsyncWithDesc(descriptor, KIND, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(from));
    CALL(aclrtFree(to));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
