/* A notify is one bit: two records release one wait, and a reset takes the bit away. */
#include "expect.h"

int main(void)
{
    aclrtStreamStatus status;
    aclrtNotify notify;
    aclrtStream stream, other;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateStream(&other));
    CALL(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    CALL(aclrtRecordNotify(notify, stream));
    CALL(aclrtRecordNotify(notify, stream));
    CALL(aclrtWaitAndResetNotify(notify, stream, 0));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtRecordNotify(notify, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtNotifyBatchReset(&notify, 1));
    CALL(aclrtWaitAndResetNotify(notify, stream, 0));
    CALL(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_NOT_READY);
    CALL(aclrtRecordNotify(notify, other));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyNotify(notify));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtDestroyStream(other));
    CALL(aclrtResetDevice(0));
    puts("one bit");
    return aclFinalize();
}
