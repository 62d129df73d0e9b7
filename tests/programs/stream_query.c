/* Asks a stream whether it is done, before, during and after its work. */
#include "expect.h"

int main(void)
{
    aclrtStreamStatus status;
    aclrtStream stream, other;
    aclrtEvent gate;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateStream(&other));
    CALL(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    CALL(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_COMPLETE);
    CALL(aclrtStreamWaitEvent(stream, gate));
    CALL(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_NOT_READY);
    CALL(aclrtRecordEvent(gate, other));
    do
        CALL(aclrtStreamQuery(stream, &status));
    while (status == ACL_STREAM_STATUS_NOT_READY);
    EXPECT(status == ACL_STREAM_STATUS_COMPLETE);
    CALL(aclrtDestroyEvent(gate));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtDestroyStream(other));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamQuery(stream, &status));
    CALL(aclrtResetDevice(0));
    puts("complete, not ready, complete");
    return aclFinalize();
}
