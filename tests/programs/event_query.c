/* The states of a record, by both functions, whose answers are numbered differently. */
#include "expect.h"

#include <acl/acl_npud.h>

int main(void)
{
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus status;
    aclrtStream stream;
    aclrtEvent event;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEvent(&event));
    CALL(aclrtQueryEventStatus(event, &recorded));
    EXPECT(recorded == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CALL(aclnpudLaunchDelay(60000000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtQueryEvent(event, &status));
    EXPECT(status == ACL_EVENT_STATUS_NOT_READY);
    CALL(aclrtStreamAbort(stream));
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtSynchronizeEvent(event));
    CALL(aclrtQueryEvent(event, &status));
    EXPECT(status == ACL_EVENT_STATUS_COMPLETE);
    CALL(aclrtQueryEventStatus(event, &recorded));
    EXPECT(recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CALL(aclrtDestroyEvent(event));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtQueryEvent(event, &status));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("not recorded, not ready, complete");
    return aclFinalize();
}
