// A binary of ascendc_fatbin_library(): loaded by name and from memory, its kernels by their names.
#include "device.h"

#include <dlfcn.h>
#include <cstring>
#include <fstream>
#include <iterator>

struct Pair {
    float a;
    int64_t b;
};

static void launch(Device &device, aclrtBinHandle binary, double filled)
{
    Array<double> out(std::vector<double>(2));
    Array<int> number({5});
    aclrtFuncHandle fill, other;
    double *to = out.data();
    int *on_number = number.data(), by = 7;
    float a = 0.5F;
    Pair pair = {1, 1000};
    uint8_t c = 3;
    void *args[] = {&to, &a, &pair, &c}, *other_args[] = {&on_number, &by};

    CALL(aclrtBinaryGetFunction(binary, "fill", &fill));
    CALL(aclrtBinaryGetFunction(binary, "_Z5otherPii", &other));
    CALL(aclrtLaunchKernelWithArgsArray(fill, 2, device.stream, nullptr, args));
    CALL(aclrtLaunchKernelWithArgsArray(other, 1, device.stream, nullptr, other_args));
    device.wait();
    EXPECT(out.read()[0] == filled && out.read()[1] == filled);
    EXPECT(number.read()[0] == 12);
}

// One that is static has no symbol. Each handle has its own.
static void use_globals(Device &device, aclrtBinHandle binary)
{
    int32_t *host, *calls;
    uint32_t *added;
    size_t size;

    CALL(aclrtMallocHost((void **)&host, 4));
    CALL(aclrtBinaryGetGlobal(binary, "counters::calls", (void **)&calls, &size));
    EXPECT(size == 4);
    CALL(aclrtMemcpyAsync(host, 4, calls, 4, ACL_MEMCPY_DEVICE_TO_HOST, device.stream));
    device.wait();
    EXPECT(*host == 101);
    CALL(aclrtBinaryGetGlobal(binary, "added", (void **)&added, &size));
    *host = 1040;
    CALL(aclrtMemcpyAsync(added, 4, host, 4, ACL_MEMCPY_HOST_TO_DEVICE, device.stream));
    launch(device, binary, 2044.5);
    CALL(aclrtFreeHost(host));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtBinaryGetGlobal(binary, "calls", (void **)&calls, &size));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetGlobal(binary, "fill", (void **)&calls, &size));
}

// Kernels by the order of their names, as ascendc_fatbin_library() has registered them.
static void count_functions(aclrtBinHandle binary)
{
    const void *rest = &rest;
    aclrtFuncHandle found[4] = {nullptr, nullptr, const_cast<void *>(rest), nullptr}, fill;
    uint32_t count = 0;
    char name[32];

    CALL(aclrtBinaryGetFunctionCount(binary, &count));
    EXPECT(count == 2);
    CALL(aclrtBinaryEnumerateFunctions(binary, found, 3));
    CALL(aclrtGetFunctionName(found[0], sizeof(name), name));
    EXPECT(strcmp(name, "_Z5otherPii") == 0);
    CALL(aclrtBinaryGetFunction(binary, "fill", &fill));
    EXPECT(found[1] == fill && !found[2]);
    found[1] = nullptr;
    CALL(aclrtBinaryEnumerateFunctions(binary, found, 1));
    EXPECT(found[0] && !found[1]);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryEnumerateFunctions(binary, found, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryEnumerateFunctions(binary, nullptr, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinaryGetFunctionCount(binary, nullptr));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtBinaryGetFunctionCount(fill, &count));
}

static void look(aclrtBinHandle binary)
{
    aclrtFuncHandle fill;
    size_t count, offset, size;
    int64_t kind;

    CALL(aclrtBinaryGetFunction(binary, "fill", &fill));
    CALL(aclrtFunctionGetParamCount(fill, &count));
    CALL(aclrtFunctionGetParamInfo(fill, 3, &offset, &size));
    CALL(aclrtGetFunctionAttribute(fill, ACL_FUNC_ATTR_KERNEL_TYPE, &kind));
    EXPECT(count == 4 && offset == 32 && size == 1 && kind == ACL_KERNEL_TYPE_VECTOR);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(binary, "other", &fill));
    CALL(aclrtBinaryGetFunction(binary, "_Z5otherPii", &fill));
    CALL(aclrtGetFunctionAttribute(fill, ACL_FUNC_ATTR_KERNEL_TYPE, &kind));
    EXPECT(kind == ACL_KERNEL_TYPE_CUBE);
}

// A library that the program loads itself: its kernels are known until it is closed.
static void load_library(Device &device)
{
    void *library = dlopen(BINARY, RTLD_NOW);
    Array<int> number({5});
    aclrtFuncHandle function;
    int *on_number = number.data(), by = -2;
    void *args[] = {&on_number, &by};

    EXPECT(library);
    void *symbol = dlsym(library, "_Z5otherPii");
    EXPECT(symbol);
    CALL(aclrtGetFuncBySymbol(symbol, &function));
    CALL(aclrtLaunchKernelWithArgsArray(symbol, 1, device.stream, nullptr, args));
    device.wait();
    EXPECT(number.read()[0] == 3);
    EXPECT(dlclose(library) == 0);
    FAILS(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, aclrtGetFuncBySymbol(symbol, &function));
}

int main()
{
    Device device;
    aclrtBinHandle binaries[2];
    std::ifstream file(BINARY, std::ios::binary);
    std::vector<char> image((std::istreambuf_iterator<char>(file)), {});

    load_library(device);
    CALL(aclrtBinaryLoadFromFile(BINARY, nullptr, &binaries[0]));
    CALL(aclrtBinaryLoadFromData(image.data(), image.size(), nullptr, &binaries[1]));
    count_functions(binaries[0]);
    look(binaries[0]);
    for (aclrtBinHandle binary : binaries) {
        launch(device, binary, 1044.5);
        use_globals(device, binary);
    }
    for (aclrtBinHandle binary : binaries)
        CALL(aclrtBinaryUnLoad(binary));
    return 0;
}
