// check: race
// Memory of a pool is there for what comes later in its stream; another stream must wait.
#include "check.h"

int main()
{
    start_device();
    aclrtStream owner = NEW_STREAM(), user = NEW_STREAM();
    aclrtEvent there = NEW_EVENT(ACL_EVENT_SYNC);
    aclrtMemPool pool = make_pool();
    void *memory;

    CALL(aclrtMemPoolMallocAsync(&memory, BYTES, pool, owner)); // check: made by
    CALL(aclrtRecordEvent(there, owner));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(user, there));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, user));
    // check: missing must wait for an event that is recorded after
    CALL(aclrtSynchronizeStream(user));
    CALL(aclrtMemPoolFreeAsync(memory, owner));
    end_streams(owner, user);
    CALL(aclrtMemPoolDestroy(pool));
    CALL(aclrtDestroyEvent(there));
    end_device();
}
