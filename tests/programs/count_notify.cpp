// A counter on the device: four streams add to it, one waits for all of them.
#include "expect.h"

#include <array>

int main()
{
    aclrtCntNotify counter = nullptr;
    aclrtStream waiter = nullptr;
    std::array<aclrtStream, 4> workers{};
    aclrtCntNotifyRecordInfo add{ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1};
    aclrtCntNotifyWaitInfo all{};
    aclrtStreamStatus status;

    all.mode = ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE;
    all.value = workers.size();
    all.isClear = 1;
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&waiter));
    CALL(aclrtCntNotifyCreate(&counter, 0));
    CALL(aclrtCntNotifyWaitWithTimeout(counter, waiter, &all));
    for (aclrtStream &worker : workers) {
        CALL(aclrtStreamQuery(waiter, &status));
        EXPECT(status == ACL_STREAM_STATUS_NOT_READY);
        CALL(aclrtCreateStream(&worker));
        CALL(aclrtCntNotifyRecord(counter, worker, &add));
        CALL(aclrtSynchronizeStream(worker));
    }
    CALL(aclrtSynchronizeStream(waiter));
    for (aclrtStream worker : workers)
        CALL(aclrtDestroyStream(worker));
    CALL(aclrtCntNotifyDestroy(counter));
    CALL(aclrtDestroyStream(waiter));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("four of four");
}
