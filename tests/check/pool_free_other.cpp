// check: race
// Memory of a pool is freed in another stream than the one that uses it.
#include "check.h"

int main()
{
    start_device();
    aclrtStream user = NEW_STREAM(), other = NEW_STREAM();
    aclrtEvent used = NEW_EVENT(ACL_EVENT_SYNC);
    aclrtMemPool pool = make_pool();
    void *memory;

    CALL(aclrtMemPoolMallocAsync(&memory, BYTES, pool, user));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, user));
    CALL(aclrtRecordEvent(used, user));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(other, used));
    CALL(aclrtMemPoolFreeAsync(memory, other)); // check: freed by
    // check: missing must wait for an event that is recorded after the write
    (void)aclrtSynchronizeStream(user); // it may have failed
    CALL(aclrtDestroyStream(user));
    end_stream(other);
    CALL(aclrtMemPoolDestroy(pool));
    CALL(aclrtDestroyEvent(used));
    end_device();
}
