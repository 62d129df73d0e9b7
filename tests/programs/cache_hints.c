/* Prefetches and write-backs between the tasks of a stream. */
#include "expect.h"

int main(void)
{
    void *memory, *descriptor;
    aclrtStream stream;
    size_t size;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtCmoAsync(memory, 1 << 20, ACL_RT_CMO_TYPE_PREFETCH, stream));
    CALL(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, stream));
    CALL(aclrtCmoAsyncWithBarrier(memory, 1 << 20, ACL_RT_CMO_TYPE_INVALID, 1, stream));
    CALL(aclrtCmoGetDescSize(&size));
    CALL(aclrtMalloc(&descriptor, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtCmoSetDesc(descriptor, memory, 1 << 20));
    CALL(aclrtCmoAsyncWithDesc(descriptor, ACL_RT_CMO_TYPE_WRITEBACK, stream, NULL));
    CALL(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCmoAsync(memory, 0, ACL_RT_CMO_TYPE_FLUSH, stream));
    CALL(aclrtFree(descriptor));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("three hints");
    return aclFinalize();
}
