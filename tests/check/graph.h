/* Models with a condition. */
#pragma once

#include "check.h"

static inline void fill_memory(void *memory, aclrtStream stream)
{
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
}

/** if (condition) act(memory); the nested model is captured on `inside`. */
static inline aclmdlRI capture_if(aclrtStream stream, aclrtStream inside, uint32_t condition,
                                  void (*act)(void *memory, aclrtStream stream), void *memory)
{
    aclmdlRI model, nested;
    aclmdlRICondHandle handle;

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(aclmdlRICaptureGetInfo(stream, NULL, &model));
    CALL(aclmdlRICondHandleCreate(model, condition, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT,
                                  &handle));
    const aclmdlRICondTaskParams params = {handle, ACL_MODEL_RI_COND_TYPE_IF, 1, &nested};
    CALL(aclmdlRIAddCondTask(params, stream, 0));
    CALL(aclmdlRICaptureToModelRIBegin(inside, nested, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    act(memory, inside);
    CALL(aclmdlRICaptureEnd(inside, NULL));
    CALL(aclmdlRICaptureEnd(stream, &model));
    return model;
}
