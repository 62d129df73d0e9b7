/* Numbers for dropout and for noise, made in a stream; parameters may lie on the device. */
#include "expect.h"

#include <string.h>

enum { COUNT = 10000 };

static aclrtRandomParaInfo value_of(const void *value, uint8_t size)
{
    aclrtRandomParaInfo p = {.size = size};

    memcpy(p.valueOrAddr, value, size);
    return p;
}

/* The value is read from device memory when the stream comes to it. */
static aclrtRandomParaInfo value_at(void *device, uint8_t size)
{
    aclrtRandomParaInfo p = value_of(&device, sizeof(device));

    p.isAddr = 1;
    p.size = size;
    return p;
}

int main(void)
{
    const float low = -1, high = 1;
    const uint64_t seed = 42, count = COUNT;
    aclrtRandomNumTaskInfo task = {.dataType = ACL_FLOAT};
    aclrtUniformDisInfo *uniform = &task.randomNumFuncParaInfo.paramInfo.uniformDisInfo;
    static float first[COUNT], again[COUNT];
    void *device, *parameter, *counter;
    aclrtStream stream;
    float sum = 0;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, sizeof(first), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&parameter, sizeof(high), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&counter, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(counter, 16, 0, 16));
    CALL(aclrtMemcpy(parameter, sizeof(high), &high, sizeof(high), ACL_MEMCPY_HOST_TO_DEVICE));
    task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    uniform->min = value_of(&low, sizeof(low));
    uniform->max = value_at(parameter, sizeof(high));
    task.randomSeed = value_of(&seed, sizeof(seed));
    task.randomNum = value_of(&count, sizeof(count));
    task.randomResultAddr = device;
    task.randomCounterAddr = counter;
    CALL(aclrtRandomNumAsync(&task, stream, NULL));
    CALL(aclrtMemcpyAsync(first, sizeof(first), device, sizeof(first), ACL_MEMCPY_DEVICE_TO_HOST,
                          stream));
    CALL(aclrtRandomNumAsync(&task, stream, NULL)); /* goes on where the counter is */
    CALL(aclrtMemcpyAsync(again, sizeof(again), device, sizeof(again), ACL_MEMCPY_DEVICE_TO_HOST,
                          stream));
    CALL(aclrtSynchronizeStream(stream));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(first[i] >= low && first[i] < high);
        sum += first[i];
    }
    EXPECT(sum > -COUNT / 20 && sum < COUNT / 20);
    EXPECT(memcmp(first, again, sizeof(first)) != 0);
    CALL(aclrtFree(counter));
    CALL(aclrtFree(parameter));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("%d numbers, twice\n", COUNT);
    return aclFinalize();
}
