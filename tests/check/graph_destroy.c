/* check: race */
/* The end of a model waits for its executions. */
#include "graph.h"

int main(void)
{
    aclmdlRI model;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    fill_memory(memory, stream);
    CALL(aclmdlRICaptureEnd(stream, &model));
    /* check: written by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    if (!WRONG)
        CALL(aclmdlRIDestroy(model));
    /* check: written by */
    CALL(aclrtMemset(memory, BYTES, 2, BYTES));
    /* check: missing must synchronise */
    end_stream(stream);
    if (WRONG)
        CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(memory));
    end_device();
}
