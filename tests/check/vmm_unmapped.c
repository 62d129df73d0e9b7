/* check: use-after-free */
/* A task names addresses at which nothing is mapped any more. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtDrvMemHandle handle = make_physical();
    void *memory = map_physical(handle);

    if (WRONG)
        CALL(aclrtUnmapMem(memory)); /* check: unmapped by */
    /* check: (written|used|given) by */
    (void)aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream);
    end_stream(stream);
    if (!WRONG)
        CALL(aclrtUnmapMem(memory));
    CALL(aclrtReleaseMemAddress(memory));
    CALL(aclrtFreePhysical(handle));
    end_device();
}
