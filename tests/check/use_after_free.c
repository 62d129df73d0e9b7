/* check: use-after-free */
/* A task names memory that was freed. The library refuses that. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    if (WRONG)
        CALL(aclrtFree(memory)); /* check: freed by */
    /* check: (written|used|given) by */
    (void)aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream);
    end_stream(stream);
    if (!WRONG)
        CALL(aclrtFree(memory));
    end_device();
}
