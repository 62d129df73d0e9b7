// check: race
// Two producers add to a counter. The consumer's stream waits for one of them, or for both.
#include "check.h"

int main()
{
    aclrtCntNotifyRecordInfo add = {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1};
    aclrtCntNotifyWaitInfo all = {};

    start_device();
    aclrtStream first = NEW_STREAM(), second = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtCntNotify counter = NEW(aclrtCntNotify, aclrtCntNotifyCreate, 0);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    all.mode = ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE;
    all.value = WRONG ? 1 : 2;
    CALL(aclrtCntNotifyWaitWithTimeout(counter, consumer, &all));
    CALL(aclrtCntNotifyRecord(counter, first, &add));
    CALL(aclrtSynchronizeStream(first));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, second));
    CALL(aclrtCntNotifyRecord(counter, second, &add));
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    // check: missing must wait for
    end_streams(second, consumer);
    end_stream(first);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtCntNotifyDestroy(counter));
    end_device();
}
