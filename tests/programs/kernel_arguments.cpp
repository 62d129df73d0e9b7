/* Every way to hand arguments to a kernel, attributes of launches, and what functions tell. */
#include "binary_kit.h"

static aclrtBinHandle bin;
static aclrtFuncHandle add, scale_all;

struct Tiling {
    uint32_t n, factor;
};

/* Worked case 3. */
static void lists()
{
    int32_t *x = vector_new(1, 1), *y = vector_new(0, 2), *z = vector_new(0, 0);
    aclrtParamHandle first, param, tiling;
    aclrtArgsHandle list;
    void *buffer;
    Tiling data = {COUNT, 5};

    CALL(aclrtKernelArgsInit(add, &list));
    CALL(aclrtKernelArgsAppend(list, &x, sizeof(x), &first));
    CALL(aclrtKernelArgsAppend(list, &y, sizeof(y), &param));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtKernelArgsAppend(list, &z, 0, &param));
    CALL(aclrtKernelArgsAppend(list, &z, sizeof(z), &param));
    CALL(aclrtKernelArgsAppendPlaceHolder(list, &tiling));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtKernelArgsGetPlaceHolderBuffer(list, first, 8, &buffer));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtKernelArgsGetPlaceHolderBuffer(list, tiling, 0, &buffer));
    CALL(aclrtKernelArgsGetPlaceHolderBuffer(list, tiling, sizeof(data), &buffer));
    memcpy(buffer, &data, sizeof(data));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtKernelArgsAppend(list, &z, sizeof(z), &param));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernelWithConfig(add, 3, stream, nullptr, list, nullptr));
    CALL(aclrtKernelArgsFinalize(list));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtKernelArgsGetPlaceHolderBuffer(list, tiling, 8, &buffer));
    CALL(aclrtLaunchKernelWithConfig(add, 3, stream, nullptr, list, nullptr));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 1, 11);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtKernelArgsParaUpdate(list, tiling, &y, sizeof(y)));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtKernelArgsParaUpdate(list, first, &y, 4));
    CALL(aclrtKernelArgsParaUpdate(list, first, &y, sizeof(y)));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernelWithConfig(add, 3, stream, nullptr, list, nullptr));
    CALL(aclrtKernelArgsFinalize(list));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtLaunchKernelWithConfig(add, 0, stream, nullptr, list, nullptr));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtLaunchKernelWithConfig(add, 3, stream, nullptr, list, &x));
    CALL(aclrtLaunchKernelWithConfig(add, 3, stream, nullptr, list, nullptr));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 0, 12);
    CALL(aclrtFree(x));
    CALL(aclrtFree(y));
    CALL(aclrtFree(z));
}

/* A list in memory of the program: as much as it has asked for is enough, and no more is used. */
static void lists_of_the_program()
{
    int32_t *z = vector_new(1, 1);
    aclrtParamHandle param;
    size_t handle_size, size;
    uint64_t n = COUNT;
    float by = 2;

    CALL(aclrtKernelArgsGetHandleMemSize(scale_all, &handle_size));
    CALL(aclrtKernelArgsGetMemSize(scale_all, 24, &size));
    EXPECT(size >= 24);
    void *list = malloc(handle_size), *bytes = malloc(size);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtKernelArgsInitByUserMem(scale_all, list, bytes, 0));
    CALL(aclrtKernelArgsInitByUserMem(scale_all, list, bytes, size));
    CALL(aclrtKernelArgsAppend(list, &z, sizeof(z), &param));
    CALL(aclrtKernelArgsAppend(list, &n, sizeof(n), &param));
    CALL(aclrtKernelArgsAppend(list, &by, sizeof(by), &param));
    CALL(aclrtKernelArgsFinalize(list));
    CALL(aclrtLaunchKernelWithConfig(scale_all, 5, stream, nullptr, list, nullptr));
    memset(bytes, 0xff, size);
    free(bytes);
    free(list);
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 5, 2); /* 2 z + 3 */
    CALL(aclrtFree(z));
}

/* Worked case 6, and arguments by pointers to them, on the host, and on the device. */
static void launches()
{
    int32_t *z = vector_new(1, 1);
    uint64_t n = COUNT;
    float by = 2;
    void *pointers[] = {&z, &n, &by}, *device;
    struct {
        int32_t *z;
        uint64_t n;
        float by;
        uint32_t pad;
    } block = {z, n, by, 0};
    aclrtPlaceHolderInfo outside = {sizeof(block), 0};

    CALL(aclrtLaunchKernelWithArgsArray(scale_all, 2, stream, nullptr, pointers));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtLaunchKernelWithArgsArray(scale_all, 0, stream, nullptr, pointers));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernelWithArgsArray(scale_all, 2, stream, nullptr, nullptr));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernelWithArgsArray(add, 2, stream, nullptr, pointers));
    FAILS(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION,
          aclrtLaunchKernelWithArgsArray(&n, 2, stream, nullptr, pointers));
    CALL(aclrtMalloc(&device, sizeof(block), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(device, sizeof(block), &block, sizeof(block), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtLaunchKernel(scale_all, 7, device, sizeof(block), stream));
    CALL(aclrtLaunchKernelV2(scale_all, 1, device, sizeof(block), nullptr, stream));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 29, 8); /* 2 (2 (2 z + 3) + 3) + 3 */
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernel(scale_all, 0, device, sizeof(block), stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernel(scale_all, 65536, device, sizeof(block), stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchKernel(scale_all, 1, device, 0, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtLaunchKernel(scale_all, 1, nullptr, 8, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtLaunchKernel(nullptr, 1, device, 8, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchKernel(&n, 1, device, 8, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernelWithHostArgs(scale_all, 1, stream, nullptr, &block, sizeof(block),
                                        &outside, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtLaunchKernelWithHostArgs(scale_all, 1, stream, nullptr, &block, sizeof(block),
                                        nullptr, 1));
    CALL(aclrtFree(device));
    CALL(aclrtFree(z));
}

/* A result that only a kernel writes whose arguments are on the device: npud check knows of it. */
static void result_of_arguments_on_the_device()
{
    int32_t *x = vector_new(1, 1), *y = vector_new(0, 2), *z;
    Tiling tiling = {COUNT, 1};
    uint64_t words[4];
    void *device;

    CALL(aclrtMalloc(reinterpret_cast<void **>(&z), COUNT * sizeof(*z), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&device, sizeof(words) + sizeof(tiling), ACL_MEM_MALLOC_HUGE_FIRST));
    words[0] = reinterpret_cast<uint64_t>(x);
    words[1] = reinterpret_cast<uint64_t>(y);
    words[2] = reinterpret_cast<uint64_t>(z);
    words[3] = reinterpret_cast<uint64_t>(device) + sizeof(words);
    CALL(aclrtMemcpy(device, sizeof(words), words, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy(static_cast<char *>(device) + sizeof(words), sizeof(tiling), &tiling,
                     sizeof(tiling), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtLaunchKernel(add, 2, device, sizeof(words), stream));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 1, 3);
    CALL(aclrtFree(device));
    CALL(aclrtFree(x));
    CALL(aclrtFree(y));
    CALL(aclrtFree(z));
}

static aclError launch_with(size_t n, aclrtLaunchKernelAttr *attributes)
{
    static uint32_t nothing[2];
    uint64_t words[] = {0, 0, 0, reinterpret_cast<uint64_t>(nothing)};
    aclrtLaunchKernelCfg cfg = {attributes, n};

    return aclrtLaunchKernelWithHostArgs(add, 1, stream, &cfg, words, sizeof(words), nullptr, 0);
}

/* Worked case 5. */
static void attributes()
{
    aclrtLaunchKernelAttr a[2] = {};

    a[0].id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT;
    a[0].value.timeout = 100;
    CALL(launch_with(1, a));
    a[1].id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, launch_with(2, a));
    a[0].id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE;
    a[0].value.schemMode = 2;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, launch_with(1, a));
    a[0].value.schemMode = 1;
    CALL(launch_with(1, a));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, launch_with(0, nullptr));
    CALL(launch_with(0, a));
    a[0].id = static_cast<aclrtLaunchKernelAttrId>(99);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, launch_with(1, a));
    CALL(aclrtSynchronizeStream(stream));
}

static void what_functions_tell()
{
    void *cube, *vector;
    size_t cube_size, vector_size, count, offset, size;
    aclrtFuncHandle mix;
    int64_t value;
    char name[10];

    CALL(aclrtBinaryGetFunctionByEntry(bin, 78, &mix));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunctionByEntry(bin, 79, &mix));
    CALL(aclrtGetFunctionName(scale_all, sizeof(name), name));
    EXPECT(strcmp(name, "scale_all") == 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetFunctionName(scale_all, sizeof(name) - 1, name));
    CALL(aclrtGetFunctionAddr(scale_all, &cube, &vector));
    EXPECT(!cube && vector);
    CALL(aclrtGetFunctionAddr(mix, &cube, &vector));
    EXPECT(cube && cube == vector);
    CALL(aclrtGetFunctionSize(mix, &cube_size, &vector_size));
    EXPECT(cube_size > 0 && cube_size == vector_size);
    CALL(aclrtGetFunctionAttribute(scale_all, ACL_FUNC_ATTR_KERNEL_TYPE, &value));
    EXPECT(value == ACL_KERNEL_TYPE_VECTOR);
    CALL(aclrtGetFunctionAttribute(mix, ACL_FUNC_ATTR_KERNEL_RATIO, &value));
    EXPECT(value == 0x10001);
    CALL(aclrtGetFunctionAttribute(mix, ACL_FUNC_ATTR_KERNEL_SCHED_MODE, &value));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtGetFunctionAttribute(mix, static_cast<aclrtFuncAttribute>(9), &value));
    CALL(aclrtFunctionGetParamCount(scale_all, &count));
    EXPECT(count == 3);
    CALL(aclrtFunctionGetParamInfo(scale_all, 2, &offset, &size));
    EXPECT(offset == 16 && size == 4);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFunctionGetParamInfo(scale_all, 3, &offset, &size));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFunctionGetParamCount(add, &count));
    FAILS(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, aclrtGetFuncBySymbol(&count, &mix));
}

int main()
{
    set_up();
    CALL(aclrtBinaryLoadFromFile(KERNELS, nullptr, &bin));
    CALL(aclrtBinaryGetFunction(bin, "add", &add));
    CALL(aclrtBinaryGetFunction(bin, "scale_all", &scale_all));
    lists();
    lists_of_the_program();
    launches();
    result_of_arguments_on_the_device();
    attributes();
    what_functions_tell();
    CALL(aclrtBinaryUnLoad(bin));
    return tear_down();
}
