/* check: race */
/* Two devices: the stream of the second copies from the first before it has waited. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream producer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *here = NEW_MEMORY(BYTES), *there;
    aclrtStream consumer;

    CALL(aclrtSetDevice(1));
    CALL(aclrtDeviceEnablePeerAccess(0, 0));
    consumer = NEW_STREAM();
    there = NEW_MEMORY(BYTES);
    CALL(aclrtSetDevice(0));
    /* check: written by */
    CALL(aclrtMemsetAsync(here, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    CALL(aclrtSetDevice(1));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, written));
    /* check: read by */
    CALL(aclrtMemcpyAsync(there, BYTES, here, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_stream(consumer);
    CALL(aclrtFree(there));
    CALL(aclrtResetDevice(1));
    CALL(aclrtSetDevice(0));
    end_stream(producer);
    CALL(aclrtFree(here));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
