/* Kernels of the device's CPU: announced by name, and launched like others. */
#include "binary_kit.h"

int main(void)
{
    aclrtBinaryLoadOption option = {.type = ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE};
    aclrtBinaryLoadOptions options = {&option, 1};
    aclrtFuncHandle negate, again;
    aclrtBinHandle bin, plain;
    size_t size, count;
    int32_t *z;
    void *image = file_read(KERNELS, &size), *address;
    int64_t value;

    set_up();
    z = vector_new(1, 1);
    option.value.cpuKernelMode = 1;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromData(image, size, &options, &bin));
    option.value.cpuKernelMode = 2;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromFile(KERNELS, &options, &bin));
    CALL(aclrtBinaryLoadFromData(image, size, &options, &bin));
    CALL(aclrtBinaryLoadFromData(image, size, NULL, &plain));
    /* Worked case 10. */
    CALL(aclrtRegisterCpuFunc(bin, "run_on_cpu", "Negate", &negate));
    CALL(aclrtRegisterCpuFunc(bin, "run_on_cpu", "Negate", &again));
    EXPECT(negate == again);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRegisterCpuFunc(bin, "no_such", "Other", &again));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRegisterCpuFunc(plain, "run_on_cpu", "Negate", &again));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunctionByEntry(bin, 77, &again));
    CALL(aclrtGetFunctionAttribute(negate, ACL_FUNC_ATTR_KERNEL_TYPE, &value));
    EXPECT(value == ACL_KERNEL_TYPE_AICPU);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetFunctionAddr(negate, &address, &address));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtFunctionGetParamCount(negate, &count));
    CALL(aclrtBinaryGetFunction(bin, "run_on_cpu", &again));
    CALL(aclrtGetFunctionAttribute(again, ACL_FUNC_ATTR_KERNEL_TYPE, &value));
    EXPECT(value == ACL_KERNEL_TYPE_AICPU);
    {
        uint64_t words[] = {(uint64_t)z, COUNT};

        CALL(aclrtLaunchKernelWithHostArgs(negate, 1, stream, NULL, words, sizeof(words), NULL, 0));
        CALL(aclrtSynchronizeStream(stream));
    }
    expect_vector(z, -1, -1);
    CALL(aclrtBinaryUnLoad(bin));
    CALL(aclrtBinaryUnLoad(plain));
    free(image);
    CALL(aclrtFree(z));
    return tear_down();
}
