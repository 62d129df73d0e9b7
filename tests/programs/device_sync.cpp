// One wait for all streams of a device, with and without a limit.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <vector>

int main()
{
    std::vector<aclrtStream> streams(4);
    aclrtEvent gate = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    for (aclrtStream &stream : streams) {
        CALL(aclrtCreateStream(&stream));
        CALL(aclrtStreamWaitEvent(stream, gate));
    }
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDevice(1));
    CALL(aclrtRecordEvent(gate, nullptr));
    CALL(aclrtSynchronizeDevice());
    for (aclrtStream stream : streams) {
        aclrtStreamStatus status;
        CALL(aclrtStreamQuery(stream, &status));
        EXPECT(status == ACL_STREAM_STATUS_COMPLETE);
        CALL(aclrtDestroyStream(stream));
    }
    CALL(aclrtDestroyEvent(gate));
    CALL(aclrtResetDeviceForce(0));
    CALL(aclFinalize());
    printf("%zu streams are done\n", streams.size());
}
