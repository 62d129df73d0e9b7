// A wait for a notify that nobody records.
#include "expect.h"

int main()
{
    aclrtNotify notify = nullptr;
    aclrtStream stream = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    CALL(aclrtWaitAndResetNotify(notify, stream, 1));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    CALL(aclrtRecordNotify(notify, stream));
    CALL(aclrtWaitAndResetNotify(notify, stream, 1));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyNotify(notify));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("late once, in time once");
}
