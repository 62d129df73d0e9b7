/* check: race */
/* Memory is freed while a task uses it: aclrtFree() waits for nothing. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES); /* check: memory allocated */

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFree(memory)); /* check: freed by */
    /* check: missing must synchronise */
    (void)aclrtSynchronizeStream(stream);
    CALL(aclrtDestroyStream(stream));
    end_device();
}
