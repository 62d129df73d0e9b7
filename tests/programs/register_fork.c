/* A forked child has a copy of registered memory, and the parent goes on with its own. */
#include "expect.h"

#include <string.h>

int main(void)
{
    const size_t bytes = 16 * 4096;
    char *memory = aligned_alloc(4096, bytes);
    void *for_device, *device;
    aclrtStream stream;
    pid_t child;

    EXPECT(memory);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtHostRegister(memory, bytes, ACL_HOST_REGISTER_MAPPED, &for_device));
    strcpy(memory, "of both");
    fflush(NULL);
    child = fork();
    if (child == 0) {
        EXPECT(strcmp(memory, "of both") == 0);
        strcpy(memory, "of the child");
        _exit(0);
    }
    EXPECT(ended_well(child));
    EXPECT(strcmp(memory, "of both") == 0);
    CALL(aclrtMemcpyAsync(device, bytes, memory, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtHostUnregister(memory));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts(memory);
    free(memory);
    return aclFinalize();
}
