// Two processes that take turns by two events; only a record made before the wait counts.
#include "expect.h"

#include <acl/acl_rt_api.h>

constexpr int rounds = 20;

// The side that begins gives its event first.
static int play(int in, int out, int32_t device, bool begins)
{
    aclrtIpcEventHandle mine, theirs;
    aclrtEvent event = nullptr, other = nullptr;
    aclrtStream stream = nullptr;
    char turn = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(device));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEvent(&event, ACL_EVENT_IPC));
    CALL(aclrtIpcGetEventHandle(event, &mine));
    GIVE(out, mine);
    TAKE(in, theirs);
    CALL(aclrtIpcOpenEventHandle(theirs, &other));
    for (int i = 0; i < rounds; i++) {
        if (i > 0 || !begins) {
            TAKE(in, turn);
            CALL(aclrtStreamWaitEvent(stream, other));
        }
        CALL(aclrtRecordEvent(event, stream));
        GIVE(out, turn);
    }
    CALL(aclrtSynchronizeStream(stream));
    if (begins)
        TAKE(in, turn);
    CALL(aclrtDestroyEvent(other));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(device));
    return aclFinalize();
}

int main()
{
    int there[2], back[2];

    EXPECT(pipe(there) == 0 && pipe(back) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        return play(there[0], back[1], 1, false);
    }
    close(back[1]);
    EXPECT(play(back[0], there[1], 0, true) == ACL_SUCCESS);
    EXPECT(ended_well(child));
    printf("%d turns each\n", rounds);
}
