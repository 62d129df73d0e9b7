/* check: leak */
/* Memory of a pool is given back to npud by aclrtFree, also after the end of the pool. */
#include "check.h"

int main(void)
{
    uint64_t keeps = BYTES;
    void *memory;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtMemPool pool = make_pool();

    CALL(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &keeps));
    CALL(aclrtMemPoolMallocAsync(&memory, BYTES, pool, stream));
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtMemPoolFreeAsync(memory, stream));
    /* check: made by */
    CALL(aclrtMemPoolMallocAsync(&memory, BYTES / 2, pool, stream));
    CALL(aclrtMemsetAsync(memory, BYTES / 2, 1, BYTES / 2, stream));
    CALL(aclrtMemPoolDestroy(pool));
    end_stream(stream);
    if (!WRONG)
        CALL(aclrtFree(memory));
}
