// The overloads for C++ beside the functions that they forward to.
#include "expect.h"

#include <acl/acl_rt_api.h>

int main()
{
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    uint64_t actual = 0;
    uint32_t priority = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream, 2, ACL_STREAM_FAST_LAUNCH));
    CALL(aclrtStreamGetPriority(stream, &priority));
    EXPECT(priority == 2);
    CALL(aclrtCreateEvent(&event, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    CALL(aclrtSetOpExecuteTimeOut(1000000, &actual));
    EXPECT(actual == 1000000);
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtStreamWaitEvent(stream, event, 10));
    CALL(aclrtSynchronizeEvent(event, 10000));
    CALL(aclrtSynchronizeStream(stream, 10000));
    CALL(aclrtSynchronizeDevice(10000));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCreateEvent(nullptr, ACL_EVENT_SYNC));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr, 0, 0));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("seven overloads");
}
