/* Binaries: loaded from a file and from data, what is in them, and what is no binary or no name. */
#include "binary_kit.h"

struct tiling {
    uint32_t n, factor;
};

struct block {
    const int32_t *x, *y;
    int32_t *z;
    uint64_t tiling;
    struct tiling data;
};

static aclError launch_add(aclrtFuncHandle add, const int32_t *x, const int32_t *y, int32_t *z)
{
    struct block block = {x, y, z, 0, {COUNT, 10}};
    aclrtPlaceHolderInfo at = {24, 32};

    return aclrtLaunchKernelWithHostArgs(add, 4, stream, NULL, &block, sizeof(block), &at, 1);
}

/* Worked cases 1, 2 and 8 of the reference. */
static void load_and_launch(void)
{
    int32_t *x = vector_new(1, 1), *y = vector_new(2, 3), *z = vector_new(0, 0);
    aclrtFuncHandle add, again;
    aclrtBinHandle bin;

    CALL(aclrtBinaryLoadFromFile(KERNELS, NULL, &bin));
    CALL(aclrtBinaryGetFunction(bin, "add", &add));
    CALL(aclrtBinaryGetFunction(bin, "add", &again));
    EXPECT(add == again);
    CALL(launch_add(add, x, y, z));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 21, 31);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(bin, "subtract", &again));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(bin, "printf", &again));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(bin, "scale", &again));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryGetFunction(bin, NULL, &again));
    /* What was launched runs on. */
    CALL(launch_add(add, x, z, z));
    CALL(aclrtBinaryUnLoad(bin));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, launch_add(add, x, y, z));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtBinaryGetFunction(bin, "add", &again));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtBinaryUnLoad(bin));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryUnLoad(NULL));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 211, 311);
    CALL(aclrtFree(x));
    CALL(aclrtFree(y));
    CALL(aclrtFree(z));
}

/* Each handle has globals of its own, also those of one image. */
static void load_twice(void)
{
    void *scale[4], *image, *address;
    aclrtBinHandle bin[4], owner;
    aclrtFuncHandle function;
    aclrtBinary descriptor;
    size_t size, bytes;

    image = file_read(KERNELS, &size);
    CALL(aclrtBinaryLoadFromFile(KERNELS, NULL, &bin[0]));
    CALL(aclrtBinaryLoadFromData(image, size, NULL, &bin[1]));
    CALL(aclrtBinaryLoadFromData(image, size, NULL, &bin[2]));
    descriptor = aclrtCreateBinary(image, size);
    EXPECT(descriptor);
    CALL(aclrtBinaryLoad(descriptor, &bin[3]));
    CALL(aclrtDestroyBinary(descriptor));
    free(image);
    for (int i = 0; i < 4; i++) {
        CALL(aclrtBinaryGetGlobal(bin[i], "scale", &scale[i], &bytes));
        EXPECT(bytes == sizeof(uint32_t));
        for (int j = 0; j < i; j++)
            EXPECT(scale[i] != scale[j]);
        CALL(aclrtBinaryGetFunctionByEntry(bin[i], 77, &function));
        CALL(aclrtFunctionGetBinary(function, &owner));
        EXPECT(owner == bin[i]);
        CALL(aclrtBinaryGetDevAddress(bin[i], &address, &bytes));
        EXPECT((char *)scale[i] >= (char *)address && (char *)scale[i] < (char *)address + bytes);
        CALL(aclrtBinaryGetGlobal(bin[i], "scale", NULL, &bytes));
        FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryGetGlobal(bin[i], "scale", NULL, NULL));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetGlobal(bin[i], "add", &address, &bytes));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetGlobal(bin[i], "stdout", &address, &bytes));
    }
    for (int i = 0; i < 4; i++)
        CALL(aclrtBinaryUnLoad(bin[i]));
    EXPECT(!aclrtCreateBinary(NULL, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDestroyBinary(NULL));
}

/* What was asked for may be used as device memory, until the binary goes. */
static void copy_global(void)
{
    aclrtPtrAttributes attributes;
    aclrtBinHandle bin;
    uint32_t *host;
    void *scale;

    CALL(aclrtMallocHost((void **)&host, 2 * sizeof(*host)));
    CALL(aclrtBinaryLoadFromFile(KERNELS, NULL, &bin));
    for (int i = 0; i < 2; i++)
        CALL(aclrtBinaryGetGlobal(bin, "scale", &scale, NULL));
    *host = 44;
    CALL(aclrtMemcpyAsync(scale, 4, host, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtMemcpyAsync(host + 1, 4, scale, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(host[1] == 44);
    CALL(aclrtPointerGetAttributes(scale, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
    CALL(aclrtBinaryUnLoad(bin));
    CALL(aclrtPointerGetAttributes(scale, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    CALL(aclrtFreeHost(host));
}

static aclError load_with(aclrtBinaryLoadOptionType type, uint32_t value, int file)
{
    aclrtBinaryLoadOption option = {.type = type};
    aclrtBinaryLoadOptions options = {&option, 1};
    aclrtBinHandle bin;
    size_t size;
    void *image = file_read(KERNELS, &size);
    aclError error;

    option.value.magic = value;
    error = file ? aclrtBinaryLoadFromFile(KERNELS, &options, &bin)
                 : aclrtBinaryLoadFromData(image, size, &options, &bin);
    if (error == 0)
        CALL(aclrtBinaryUnLoad(bin));
    free(image);
    return error;
}

/* Worked case 4. */
static void options_and_bad_images(void)
{
    aclrtBinaryLoadOptions none = {NULL, 0};
    char image[4096] = "\177ELF";
    aclrtBinHandle bin;

    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          load_with(ACL_RT_BINARY_LOAD_OPT_MAGIC, ACL_RT_BINARY_MAGIC_ELF_AICORE, 1));
    CALL(load_with(ACL_RT_BINARY_LOAD_OPT_MAGIC, ACL_RT_BINARY_MAGIC_ELF_AICORE, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, load_with(ACL_RT_BINARY_LOAD_OPT_MAGIC, 5, 0));
    CALL(load_with(ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD, 1, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, load_with(ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD, 2, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, load_with((aclrtBinaryLoadOptionType)99, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromFile(KERNELS, &none, &bin));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryLoadFromFile(NULL, NULL, &bin));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryLoadFromFile(KERNELS, NULL, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromFile("/no/such/file.o", NULL, &bin));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromFile("/", NULL, &bin));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromData(image, 0, NULL, &bin));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromData(image, 20, NULL, &bin));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromData(image, sizeof(image), NULL, &bin));
    image[4] = 2; /* 64 bits */
    image[5] = 1;
    image[18] = 0x29;
    image[19] = 0x10; /* a machine that is a device's */
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryLoadFromData(image, sizeof(image), NULL, &bin));
    EXPECT(strstr(aclGetRecentErrMsg(), "machine 4137"));
}

/* Worked case 7. */
static void looked_up_on_another_device(void)
{
    aclrtBinHandle bin;
    aclrtFuncHandle add, again;
    aclrtStream there;
    uint64_t words[4] = {0};

    CALL(aclrtBinaryLoadFromFile(KERNELS, NULL, &bin));
    CALL(aclrtBinaryGetFunction(bin, "add", &add));
    CALL(aclrtSetDevice(1));
    CALL(aclrtCreateStream(&there));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtLaunchKernelWithHostArgs(add, 1, there, NULL, words, sizeof(words), NULL, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT,
          aclrtLaunchKernelWithHostArgs(add, 1, stream, NULL, words, sizeof(words), NULL, 0));
    CALL(aclrtBinaryGetFunction(bin, "add", &again));
    EXPECT(add == again);
    {
        const uint32_t nothing[2] = {0, 0};

        words[3] = (uint64_t)nothing;
        CALL(aclrtLaunchKernelWithHostArgs(add, 1, there, NULL, words, sizeof(words), NULL, 0));
        CALL(aclrtSynchronizeStream(there));
    }
    CALL(aclrtDestroyStream(there));
    CALL(aclrtResetDevice(1));
    CALL(aclrtSetDevice(0));
    CALL(aclrtBinaryUnLoad(bin));
}

int main(void)
{
    set_up();
    load_and_launch();
    load_twice();
    copy_global();
    options_and_bad_images();
    looked_up_on_another_device();
    return tear_down();
}
