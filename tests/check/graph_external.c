/* check: race */
/* A wait for the level that a model raises, submitted before the execution: it goes on with that,
 * and not with the record that the capture only took down. */
#include "check.h"

int main(void)
{
    aclmdlRI model;

    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent level = NEW_LEVEL(ACL_EVENT_EXTERNAL);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclmdlRICaptureBegin(producer, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, producer));
    CALL(aclrtRecordEvent(level, producer));
    CALL(aclmdlRICaptureEnd(producer, &model));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, level));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    CALL(aclmdlRIExecuteAsync(model, producer)); /* check: written by */
    /* check: missing must wait for an event */
    end_streams(producer, consumer);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(level));
    end_device();
}
