/* check: race */
/* Two streams add to the same sum, which each of them reads and writes. */
#include "check.h"

#define ADD ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM

int main(void)
{
    start_device();
    aclrtStream first = NEW_STREAM(), second = NEW_STREAM();
    aclrtEvent added = NEW_EVENT(ACL_EVENT_SYNC);
    void *sum = NEW_MEMORY(BYTES), *more = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtReduceAsync(sum, more, BYTES, ADD, ACL_FLOAT, first, NULL));
    CALL(aclrtRecordEvent(added, first));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(second, added));
    /* check: (written|read) by */
    CALL(aclrtReduceAsync(sum, more, BYTES, ADD, ACL_FLOAT, second, NULL));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(first, second);
    CALL(aclrtFree(sum));
    CALL(aclrtFree(more));
    CALL(aclrtDestroyEvent(added));
    end_device();
}
