/* check: race */
/* Random numbers that one stream makes and another one copies. */
#include "check.h"

#include <string.h>

static aclrtRandomParaInfo value_of(uint64_t value, uint8_t size)
{
    aclrtRandomParaInfo info = {.size = size};

    memcpy(info.valueOrAddr, &value, size);
    return info;
}

int main(void)
{
    aclrtRandomNumTaskInfo task = {.dataType = ACL_FLOAT};
    aclrtUniformDisInfo *uniform = &task.randomNumFuncParaInfo.paramInfo.uniformDisInfo;
    const uint64_t one = 0x3f800000; /* as a float */

    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent made = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *counter = NEW_MEMORY(64), *host = NEW_HOST(BYTES);

    task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    uniform->min = value_of(0, sizeof(float));
    uniform->max = value_of(one, sizeof(float));
    task.randomSeed = value_of(42, sizeof(uint64_t));
    task.randomNum = value_of(BYTES / sizeof(float), sizeof(uint64_t));
    task.randomResultAddr = memory;
    task.randomCounterAddr = counter;
    /* check: written by */
    CALL(aclrtRandomNumAsync(&task, producer, NULL));
    CALL(aclrtRecordEvent(made, producer));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(consumer, made));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(producer, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFree(counter));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(made));
    end_device();
}
