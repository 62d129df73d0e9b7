// A thread that waits for the middle of a stream's work, not for its end.
#include "expect.h"

#include <acl/acl_npud.h>
#include <acl/acl_rt_api.h>

int main()
{
    aclrtStream stream = nullptr;
    aclrtEvent middle = nullptr, end = nullptr;
    aclrtEventRecordedStatus status;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEvent(&middle, ACL_EVENT_SYNC));
    CALL(aclrtCreateEvent(&end, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    CALL(aclnpudLaunchDelay(5000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(middle, stream));
    CALL(aclnpudLaunchDelay(60000000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(end, stream));
    CALL(aclrtSynchronizeEvent(middle));
    CALL(aclrtQueryEventStatus(end, &status));
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEvent(end, 5));
    CALL(aclrtDestroyEvent(middle));
    CALL(aclrtDestroyEvent(end));
    CALL(aclrtDestroyStreamForce(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("the middle is reached, the end is not");
}
