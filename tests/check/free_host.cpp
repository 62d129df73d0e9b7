// check: race
// Pinned memory is freed while a copy reads it.
#include "check.h"

int main()
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_BLANK(BYTES), *host = NEW_HOST(BYTES);

    // check: read by
    CALL(aclrtMemcpyAsync(memory, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFreeHost(host)); // check: freed by
    // check: missing must synchronise
    (void)aclrtSynchronizeStream(stream);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtFree(memory));
    end_device();
}
