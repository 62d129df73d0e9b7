/* check: uninitialised */
/* What a condition passes over may read bytes that nothing has written. */
#include "graph.h"

static void *host;

static void copy_memory(void *memory, aclrtStream stream)
{
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}

int main(void)
{
    aclmdlRI model;

    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_BLANK(BYTES); /* check: memory allocated */

    host = NEW_HOST(BYTES);
    if (WRONG) {
        CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        copy_memory(memory, stream);
        CALL(aclmdlRICaptureEnd(stream, &model));
    } else {
        model = capture_if(stream, other, 0, copy_memory, memory);
    }
    /* check: read by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    end_streams(stream, other);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
