/* check: race */
/* An asynchronous copy to memory of malloc() has waited when it returns; to pinned memory, not. */
#include "check.h"

int main(void)
{
    char array[BYTES];

    start_device();
    aclrtStream reader = NEW_STREAM(), writer = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES), *pinned = NEW_HOST(BYTES), *to = WRONG ? pinned : array;

    /* check: read by */
    CALL(aclrtMemcpyAsync(to, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, reader));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, writer));
    /* check: missing must wait for an event that is recorded after the read */
    end_streams(reader, writer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(pinned));
    end_device();
}
