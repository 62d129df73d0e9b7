// check: race
// Tasks of one stream are in order; the same tasks in two streams are not.
#include "check.h"

int main()
{
    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    aclrtStream second = WRONG ? other : stream;
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, second));
    // check: missing must wait for an event that is recorded after the write
    end_streams(stream, other);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
