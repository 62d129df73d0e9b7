// check: use-after-free
// Memory of a pool is freed in the order of the stream; what is submitted later must not use it.
#include "check.h"

int main()
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtMemPool pool = make_pool();
    void *memory;

    CALL(aclrtMemPoolMallocAsync(&memory, BYTES, pool, stream));
    if (WRONG)
        CALL(aclrtMemPoolFreeAsync(memory, stream)); // check: freed by
    // check: (written|used|given) by
    (void)aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream);
    if (!WRONG)
        CALL(aclrtMemPoolFreeAsync(memory, stream));
    end_stream(stream);
    CALL(aclrtMemPoolDestroy(pool));
    end_device();
}
