// A wait with a limit that passes; the work goes on, and a second wait succeeds.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <chrono>

int main()
{
    aclrtStream stream = nullptr;
    aclrtEvent gate = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    CALL(aclrtStreamWaitEvent(stream, gate));
    const auto begin = std::chrono::steady_clock::now();
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStream(stream, 5));
    EXPECT(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(5));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStream(stream, 0));
    CALL(aclrtRecordEvent(gate, nullptr));
    CALL(aclrtSynchronizeStream(stream, -1));
    CALL(aclrtDestroyEvent(gate));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("late, then done");
}
