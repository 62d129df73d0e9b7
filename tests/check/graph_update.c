/* check: race */
/* A kernel that a task group was updated with uses what it was launched with, and no more what the
 * one before it used. */
#include "kernel.h"

int main(void)
{
    aclrtTaskGrp group;
    aclmdlRI model;

    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *before = NEW_MEMORY(BYTES);
    void *after = NEW_MEMORY(BYTES); /* check: memory allocated */

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclmdlRICaptureTaskGrpBegin(stream));
    launch_use(before, stream);
    CALL(aclmdlRICaptureTaskGrpEnd(stream, &group));
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclmdlRICaptureTaskUpdateBegin(other, group));
    launch_use(after, other);
    CALL(aclmdlRICaptureTaskUpdateEnd(other));
    CALL(aclrtSynchronizeStream(other));
    /* check: written by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    CALL(aclrtFree(before));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFree(after)); /* check: freed by */
    /* check: missing must synchronise */
    end_streams(stream, other);
    CALL(aclmdlRIDestroy(model));
    end_device();
}
