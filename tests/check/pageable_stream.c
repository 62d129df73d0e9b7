/* check: race */
/* An asynchronous copy of memory of malloc() waits for its own stream only. */
#include "check.h"

int main(void)
{
    char array[BYTES];

    start_device();
    aclrtStream producer = NEW_STREAM(), other = NEW_STREAM();
    aclrtStream stream = WRONG ? other : producer;
    void *memory = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    /* check: read by */
    CALL(aclrtMemcpyAsync(array, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing */
    end_streams(producer, other);
    CALL(aclrtFree(memory));
    end_device();
}
