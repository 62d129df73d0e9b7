/* Timestamps of the device: they rise along a stream. */
#include "expect.h"

#include <acl/acl_npud.h>

int main(void)
{
    uint64_t times[3];
    aclrtEvent events[3], plain;
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 3; i++) {
        CALL(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_TIME_LINE));
        CALL(aclrtRecordEvent(events[i], stream));
        CALL(aclnpudLaunchDelay(1000, ACL_SUCCESS, stream));
    }
    CALL(aclrtSynchronizeStream(stream));
    for (int i = 0; i < 3; i++)
        CALL(aclrtEventGetTimestamp(events[i], &times[i]));
    EXPECT(times[1] >= times[0] + 1000 && times[2] >= times[1] + 1000);
    CALL(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
    CALL(aclrtRecordEvent(plain, stream));
    CALL(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(plain, &times[0]));
    for (int i = 0; i < 3; i++)
        CALL(aclrtDestroyEvent(events[i]));
    CALL(aclrtDestroyEvent(plain));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("us %lu, %lu, %lu\n", (unsigned long)times[0], (unsigned long)times[1],
           (unsigned long)times[2]);
    return aclFinalize();
}
