// check: race
// Destroying a stream waits for its tasks. Here it comes before the copy, or behind it.
#include "check.h"

int main()
{
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtDestroyStream(stream));
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing must synchronise
    if (WRONG)
        CALL(aclrtDestroyStream(stream));
    CALL(aclrtFree(memory));
    end_device();
}
