// check: uninitialised
// All bytes but the last ones are written before a copy to the host.
#include "check.h"

int main()
{
    const size_t count = WRONG ? BYTES - 8 : BYTES;
    char got[BYTES];

    start_device();
    void *memory = NEW_BLANK(BYTES); // check: memory allocated

    CALL(aclrtMemset(memory, BYTES, 1, count));
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    CALL(aclrtFree(memory));
    end_device();
}
