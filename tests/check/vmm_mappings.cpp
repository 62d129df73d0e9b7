// check: race
// One piece of memory is mapped twice: two streams use it by two addresses.
#include "check.h"

int main()
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    aclrtDrvMemHandle handle = make_physical();
    void *here = map_physical(handle), *there = map_physical(handle), *host = NEW_HOST(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(here, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, written));
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, there, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    // check: missing must wait for an event that is recorded after the write
    end_streams(producer, consumer);
    unmap_physical(here);
    unmap_physical(there);
    CALL(aclrtFreePhysical(handle));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(written));
    end_device();
}
