/* Stacks and print buffers of kernels, by calls. */
#include "expect.h"

int main(void)
{
    size_t bytes;

    CALL(aclInit(NULL));
    CALL(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &bytes));
    EXPECT(bytes == 32768);
    CALL(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, 40000));
    CALL(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &bytes));
    EXPECT(bytes == 49152); /* up to the next 16 KiB */
    CALL(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE, 4 << 20));
    CALL(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE, &bytes));
    EXPECT(bytes == 4 << 20);
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE, 65 << 20));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetLimit((aclrtDeviceLimit)99, &bytes));
    puts("stacks of 48 KiB");
    return aclFinalize();
}
