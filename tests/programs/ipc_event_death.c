/* The producer is killed before its record: the waits of the consumer fail, and do not hang. */
#include "expect.h"

#include <acl/acl_npud.h>
#include <signal.h>
#include <string.h>

static void promise_and_sleep(int out)
{
    aclrtIpcEventHandle handle;
    aclrtStream stream;
    aclrtEvent event;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CALL(aclrtIpcGetEventHandle(event, &handle));
    CALL(aclnpudLaunchDelay(60000000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(event, stream));
    GIVE(out, handle);
    pause();
    exit(1);
}

int main(void)
{
    aclrtIpcEventHandle handle;
    aclrtStream stream;
    aclrtEvent event;
    int ends[2];
    pid_t child;

    EXPECT(pipe(ends) == 0);
    child = fork();
    if (child == 0)
        promise_and_sleep(ends[1]);
    close(ends[1]);
    TAKE(ends[0], handle);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtIpcOpenEventHandle(handle, &event));
    CALL(aclrtStreamWaitEvent(stream, event));
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 5));
    EXPECT(kill(child, SIGKILL) == 0);
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeEvent(event));
    printf("%s\n", aclGetRecentErrMsg());
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(waitpid(child, NULL, 0) == child);
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
