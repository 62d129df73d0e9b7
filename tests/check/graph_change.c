/* check: race */
/* A kernel of a model that was changed uses its new arguments from the update on. */
#include "kernel.h"

static aclmdlRITask first_task(aclmdlRI model)
{
    aclrtStream stream;
    aclmdlRITask task;
    uint32_t n = 1;

    CALL(aclmdlRIGetStreams(model, &stream, &n));
    CALL(aclmdlRIGetTasksByStream(stream, &task, &n));
    return task;
}

int main(void)
{
    aclmdlRITaskParams params;
    aclmdlRI model;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *before = NEW_MEMORY(BYTES);
    void *after = NEW_MEMORY(BYTES); /* check: memory allocated */

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    launch_use(before, stream);
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclmdlRITaskGetParams(first_task(model), &params));
    params.kernelTaskParams.args = &after;
    params.kernelTaskParams.isHostArgs = 1;
    CALL(aclmdlRITaskSetParams(first_task(model), &params));
    CALL(aclmdlRIUpdate(model));
    /* check: written by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    CALL(aclrtFree(before));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFree(after)); /* check: freed by */
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclmdlRIDestroy(model));
    end_device();
}
