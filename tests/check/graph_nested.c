/* check: race */
/* What a model does in the nested model of a condition is done by its execution. */
#include "graph.h"

int main(void)
{
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);
    aclmdlRI model = capture_if(stream, other, 1, fill_memory, memory);

    /* check: written by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    CALL(aclrtSynchronizeStream(WRONG ? other : stream));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_streams(stream, other);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(memory));
    end_device();
}
