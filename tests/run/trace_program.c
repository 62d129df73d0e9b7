/*
 * Two processes for test-trace.sh: one records an IPC event, for which a stream of the other waits,
 * and marks each round. usage: trace_program
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"

#define ROUNDS 3

static int there[2], back[2];

static void check(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s: %d: %s\n", what, error, aclGetRecentErrMsg());
    exit(1);
}
#define DO(call) check(call, #call)

static void tell(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size)
        exit(1);
}

static void hear(int fd, void *data, size_t size)
{
    if (read(fd, data, size) != (ssize_t)size)
        exit(1);
}

static void run_consumer(aclrtStream stream)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;
    char c = 'x';

    hear(there[0], &handle, sizeof(handle));
    DO(aclrtIpcOpenEventHandle(handle, &event));
    for (int i = 0; i < ROUNDS; i++) {
        hear(there[0], &c, 1);
        DO(aclnpudTraceRangeBegin("consume </script>"));
        DO(aclrtStreamWaitEvent(stream, event));
        tell(back[1], &c, 1);
        DO(aclrtSynchronizeStream(stream));
        DO(aclnpudTraceRangeEnd());
    }
}

static void run_producer(aclrtStream stream)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;
    char c = 'x';

    DO(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    DO(aclrtIpcGetEventHandle(event, &handle));
    tell(there[1], &handle, sizeof(handle));
    for (int i = 0; i < ROUNDS; i++) {
        /* The other waits before this is over. */
        DO(aclnpudLaunchDelay(50000, 0, stream));
        DO(aclrtRecordEvent(event, stream));
        tell(there[1], &c, 1);
        hear(back[0], &c, 1);
        DO(aclrtSynchronizeStream(stream));
        DO(aclnpudTraceMark("round \"done\""));
    }
}

int main(void)
{
    aclrtStream stream;
    pid_t child;
    int status = 0;

    if (pipe(there) != 0 || pipe(back) != 0)
        return 1;
    child = fork();
    DO(aclInit(NULL));
    DO(aclrtSetDevice(0));
    DO(aclrtCreateStream(&stream));
    if (child == 0)
        run_consumer(stream);
    else
        run_producer(stream);
    DO(aclFinalize());
    if (child > 0)
        waitpid(child, &status, 0);
    return status;
}
