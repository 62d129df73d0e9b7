/* check: use-after-free */
/* A copy without a stream names memory that was freed. */
#include "check.h"

int main(void)
{
    char got[BYTES];

    start_device();
    void *memory = NEW_MEMORY(BYTES);

    if (WRONG)
        CALL(aclrtFree(memory)); /* check: freed by */
    /* check: (read|used|given) by */
    (void)aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST);
    if (!WRONG)
        CALL(aclrtFree(memory));
    end_device();
}
