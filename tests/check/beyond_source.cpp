// check: use-after-free
// The source of a copy goes beyond the end of its memory.
#include "check.h"

int main()
{
    char got[2 * BYTES];

    start_device();
    void *memory = NEW_MEMORY(BYTES); // check: memory allocated
    const size_t count = WRONG ? 2 * BYTES : BYTES;

    // check: (read|used|given) by
    (void)aclrtMemcpy(got, sizeof(got), memory, count, ACL_MEMCPY_DEVICE_TO_HOST);
    CALL(aclrtFree(memory));
    end_device();
}
