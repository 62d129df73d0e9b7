/* Sums of vectors, as gradients of two devices are added. */
#include "expect.h"

enum { COUNT = 1000 };

int main(void)
{
    float numbers[COUNT], got[COUNT];
    const uint64_t bytes = sizeof(numbers);
    aclrtStream stream;
    void *sum, *more;

    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&sum, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&more, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(sum, bytes, 0, bytes));
    CALL(aclrtMemcpy(more, bytes, numbers, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    for (int i = 0; i < 3; i++)
        CALL(aclrtReduceAsync(sum, more, bytes, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream,
                              NULL));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtMemcpy(got, bytes, sum, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++)
        EXPECT(got[i] == 3 * (float)i);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtReduceAsync(sum, more, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                                                    ACL_DOUBLE, stream, NULL));
    CALL(aclrtFree(sum));
    CALL(aclrtFree(more));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("the last is %.0f\n", got[COUNT - 1]);
    return aclFinalize();
}
