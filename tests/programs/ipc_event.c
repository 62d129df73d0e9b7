/* The event of one process, which another one waits for. */
#include "expect.h"

#include <acl/acl_npud.h>

static void produce(int in, int out)
{
    aclrtIpcEventHandle handle;
    aclrtStream stream;
    aclrtEvent event;
    char opened;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CALL(aclrtIpcGetEventHandle(event, &handle));
    CALL(aclnpudLaunchDelay(50000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(event, stream));
    GIVE(out, handle);
    TAKE(in, opened); /* or it may have ended before */
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    exit(aclFinalize());
}

int main(void)
{
    aclrtEventRecordedStatus status;
    aclrtIpcEventHandle handle;
    aclrtStream stream;
    aclrtEvent event;
    int ends[2], back[2];
    char opened = 1;
    pid_t child;

    EXPECT(pipe(ends) == 0 && pipe(back) == 0);
    child = fork();
    if (child == 0)
        produce(back[0], ends[1]);
    close(ends[1]);
    close(back[0]);
    TAKE(ends[0], handle);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(1));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtIpcOpenEventHandle(handle, &event));
    GIVE(back[1], opened);
    CALL(aclrtStreamWaitEvent(stream, event));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtQueryEventStatus(event, &status));
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    EXPECT(ended_well(child));
    CALL(aclrtResetDevice(1));
    puts("device 1 has waited for device 0");
    return aclFinalize();
}
