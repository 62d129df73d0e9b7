// A stream that waits a second for what never comes, and then says so.
#include "expect.h"

#include <acl/acl_rt_api.h>

int main()
{
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEvent(stream, event, -1));
    CALL(aclrtStreamWaitEvent(stream, event, 1));
    const aclError code = aclrtSynchronizeStream(stream);
    EXPECT(code != ACL_SUCCESS);
    printf("%s\n", aclGetRecentErrMsg());
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
}
