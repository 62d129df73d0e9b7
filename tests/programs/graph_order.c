/*
 * Executions of one model on two streams do not overlap: no race, also where the first has passed
 * before the second is submitted.
 */
#include "expect.h"

#include <sched.h>
#include <stdint.h>

int main(void)
{
    volatile uint32_t *seen;
    uint32_t *word, *source;
    aclrtStream first, second;
    aclmdlRI model;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&first));
    CALL(aclrtCreateStream(&second));
    CALL(aclrtMalloc((void **)&word, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc((void **)&source, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost((void **)&seen, 8));
    CALL(aclrtMemset(source, 8, 0x55, 8));
    *seen = 0;
    CALL(aclmdlRICaptureBegin(first, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtMemsetAsync(word, 8, 7, 8, first));
    CALL(aclmdlRICaptureEnd(first, &model));
    CALL(aclmdlRIExecuteAsync(model, first));
    CALL(aclrtMemcpyAsync((void *)(uintptr_t)seen, 4, source, 4, ACL_MEMCPY_DEVICE_TO_HOST, first));
    /* Looked at without a call, which would be an order of its own. */
    while (*seen == 0)
        sched_yield();
    CALL(aclmdlRIExecuteAsync(model, second));
    CALL(aclrtSynchronizeDevice());
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(word));
    CALL(aclrtFree(source));
    CALL(aclrtFreeHost((void *)(uintptr_t)seen));
    CALL(aclrtDestroyStream(first));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
