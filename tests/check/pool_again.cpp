// check: uninitialised
// Memory that a pool gives out a second time has old content, which nothing has written for it.
#include "check.h"

int main()
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtMemPool pool = make_pool();
    void *memory, *host = NEW_HOST(BYTES);

    CALL(aclrtMemPoolMallocAsync(&memory, BYTES, pool, stream));
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtMemPoolFreeAsync(memory, stream));
    CALL(aclrtMemPoolMallocAsync(&memory, BYTES, pool, stream)); // check: memory allocated
    if (!WRONG)
        CALL(aclrtMemsetAsync(memory, BYTES, 2, BYTES, stream));
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtMemPoolFreeAsync(memory, stream));
    end_stream(stream);
    CALL(aclrtMemPoolDestroy(pool));
    CALL(aclrtFreeHost(host));
    end_device();
}
