/* check: race */
/* The second entry of a batch reads what another stream writes. */
#include "check.h"

int main(void)
{
    aclrtMemcpyBatchAttr attrs = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST},
                                  .srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    size_t sizes[2] = {BYTES, BYTES}, start = 0, bad;

    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent written = NEW_EVENT(ACL_EVENT_SYNC);
    void *from[2] = {NEW_MEMORY(BYTES), NEW_MEMORY(BYTES)};
    void *to[2] = {NEW_HOST(BYTES), NEW_HOST(BYTES)};

    /* check: written by */
    CALL(aclrtMemsetAsync(from[1], BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(written, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, written));
    /* check: read by */
    CALL(aclrtMemcpyBatchAsync(to, sizes, from, sizes, 2, &attrs, &start, 1, &bad, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    for (int i = 0; i < 2; i++) {
        CALL(aclrtFree(from[i]));
        CALL(aclrtFreeHost(to[i]));
    }
    CALL(aclrtDestroyEvent(written));
    end_device();
}
