/* Two streams take turns by two flags that are reset after each turn. */
#include "expect.h"

enum { ROUNDS = 50 };

int main(void)
{
    aclrtStream ping, pong;
    aclrtEvent to_pong, to_ping;
    aclrtEventWaitStatus waits;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&ping));
    CALL(aclrtCreateStream(&pong));
    CALL(aclrtCreateEventWithFlag(&to_pong, ACL_EVENT_SYNC));
    CALL(aclrtCreateEventWithFlag(&to_ping, ACL_EVENT_SYNC));
    for (int i = 0; i < ROUNDS; i++) {
        CALL(aclrtRecordEvent(to_pong, ping));
        CALL(aclrtStreamWaitEvent(ping, to_ping));
        CALL(aclrtResetEvent(to_ping, ping));
        CALL(aclrtStreamWaitEvent(pong, to_pong));
        CALL(aclrtResetEvent(to_pong, pong));
        CALL(aclrtRecordEvent(to_ping, pong));
    }
    CALL(aclrtSynchronizeStream(ping));
    CALL(aclrtSynchronizeStream(pong));
    CALL(aclrtQueryEventWaitStatus(to_ping, &waits));
    EXPECT(waits == ACL_EVENT_WAIT_STATUS_COMPLETE);
    CALL(aclrtDestroyEvent(to_pong));
    CALL(aclrtDestroyEvent(to_ping));
    CALL(aclrtDestroyStream(ping));
    CALL(aclrtDestroyStream(pong));
    CALL(aclrtResetDevice(0));
    printf("%d rounds\n", ROUNDS);
    return aclFinalize();
}
