/* A process that forks after it has begun: the child begins anew, and the parent goes on. */
#include "expect.h"

int main(void)
{
    aclrtStream stream;
    void *memory;
    pid_t child;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    fflush(stdout);
    child = fork();
    if (child == 0) {
        CALL(aclInit(NULL));
        CALL(aclrtSetDevice(0));
        CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        CALL(aclrtFree(memory));
        CALL(aclrtResetDevice(0));
        exit(aclFinalize());
    }
    EXPECT(ended_well(child));
    CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("parent and child");
    return aclFinalize();
}
