// check: use-after-free
// A pool gives memory out a second time, for more bytes than the first time.
#include "check.h"

int main()
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtMemPool pool = make_pool();
    const size_t few = 64, many = 2048, count = WRONG ? many + 32 : many;
    uint64_t keeps = BYTES;
    void *memory;

    CALL(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &keeps));
    CALL(aclrtMemPoolMallocAsync(&memory, few, pool, stream));
    CALL(aclrtMemPoolFreeAsync(memory, stream));
    CALL(aclrtMemPoolMallocAsync(&memory, many, pool, stream)); // check: memory allocated
    // check: (written|used|given) by
    (void)aclrtMemsetAsync(memory, count, 1, count, stream);
    CALL(aclrtMemPoolFreeAsync(memory, stream));
    end_stream(stream);
    CALL(aclrtMemPoolDestroy(pool));
    end_device();
}
