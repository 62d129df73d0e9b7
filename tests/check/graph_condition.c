/* check: race */
/* A model looks at the word of its condition. */
#include "graph.h"

int main(void)
{
    aclmdlRI model, nested;
    aclmdlRICondHandle handle;
    uint64_t *word;

    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(aclmdlRICaptureGetInfo(stream, NULL, &model));
    CALL(aclmdlRICondHandleCreate(model, 0, (aclmdlRICondHandleFlag)0, &handle));
    CALL(aclmdlRICondHandleGetCondPtr(handle, &word));
    const aclmdlRICondTaskParams params = {handle, ACL_MODEL_RI_COND_TYPE_IF, 1, &nested};
    CALL(aclmdlRIAddCondTask(params, stream, 0));
    CALL(aclmdlRICaptureToModelRIBegin(other, nested, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    fill_memory(memory, other);
    CALL(aclmdlRICaptureEnd(other, NULL));
    CALL(aclmdlRICaptureEnd(stream, &model));
    /* check: written by */
    CALL(aclrtMemsetAsync(word, 8, 1, 8, other));
    CALL(aclrtRecordEvent(event, other));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(stream, event));
    /* check: read by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    /* check: missing must wait */
    end_streams(stream, other);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtFree(memory));
    end_device();
}
