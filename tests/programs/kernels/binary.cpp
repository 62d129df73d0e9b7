// A binary of ascendc_fatbin_library(): loaded by name and from memory, its kernels by their names.
#include "device.h"

#include <dlfcn.h>
#include <fstream>
#include <iterator>

struct Pair {
    float a;
    int64_t b;
};

static void launch(Device &device, aclrtBinHandle binary)
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
    EXPECT(out.read()[0] == 1044.5 && out.read()[1] == 1044.5);
    EXPECT(number.read()[0] == 12);
    CALL(aclrtBinaryUnLoad(binary));
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
    aclrtBinHandle binary;
    std::ifstream file(BINARY, std::ios::binary);
    std::vector<char> image((std::istreambuf_iterator<char>(file)), {});

    load_library(device);
    CALL(aclrtBinaryLoadFromFile(BINARY, nullptr, &binary));
    look(binary);
    launch(device, binary);
    CALL(aclrtBinaryLoadFromData(image.data(), image.size(), nullptr, &binary));
    launch(device, binary);
    return 0;
}
