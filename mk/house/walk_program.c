/* What walks.py looks at: prints the name of each walk, and when it began and ended. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != 0) {                                                                         \
            fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg());                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static unsigned long long now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (unsigned long long)ts.tv_sec * 1000000000 + (unsigned long long)ts.tv_nsec;
}

/* npud is idle before, and has nothing to do any more after it. */
#define WALK(name, calls)                                                                          \
    do {                                                                                           \
        unsigned long long begun;                                                                  \
        usleep(300000);                                                                            \
        begun = now();                                                                             \
        calls;                                                                                     \
        usleep(100000);                                                                            \
        if (last)                                                                                  \
            printf("%s\t%llu\t%llu\n", name, begun, now());                                        \
    } while (0)

int main(void)
{
    aclrtNotify notify;
    aclrtStream stream;
    aclrtEvent event;
    void *to, *from;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    OK(aclrtMalloc(&to, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&from, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    /* What is done for the first time takes another way: the second one counts. */
    for (int last = 0; last < 2; last++) {
        WALK("task: record of an event", OK(aclrtRecordEvent(event, stream));
             OK(aclrtSynchronizeStream(stream)));
        WALK("task: copy",
             OK(aclrtMemcpyAsync(to, 4096, from, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
             OK(aclrtSynchronizeStream(stream)));
        WALK("request: create a notify", OK(aclrtCreateNotify(&notify, 0)));
        WALK("request: destroy a notify", OK(aclrtDestroyNotify(notify)));
        WALK("request: create a stream", OK(aclrtCreateStream(&stream)));
        WALK("request: allocate", OK(aclrtMalloc(&to, 4096, ACL_MEM_MALLOC_HUGE_FIRST)));
    }
    fflush(stdout);
    _exit(0); /* what is left ends with the session */
}
