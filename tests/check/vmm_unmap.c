/* check: race */
/* Memory is unmapped while a task uses it by that address. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtDrvMemHandle handle = make_physical();
    void *memory = map_physical(handle);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtUnmapMem(memory)); /* check: unmapped by */
    /* check: missing must synchronise */
    (void)aclrtSynchronizeStream(stream);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtReleaseMemAddress(memory));
    CALL(aclrtFreePhysical(handle));
    end_device();
}
