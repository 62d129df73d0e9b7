/* check: uninitialised */
/* New memory where freed memory was: what was written there before does not count. */
#include "check.h"

int main(void)
{
    char got[BYTES];

    start_device();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtFree(memory));
    memory = NEW_BLANK(BYTES); /* check: memory allocated */
    if (!WRONG)
        CALL(aclrtMemset(memory, BYTES, 1, BYTES));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    CALL(aclrtFree(memory));
    end_device();
}
