// The largest and the smallest of two vectors, in half precision and in integers.
#include "expect.h"

#include <array>

template <typename T, size_t N>
static std::array<T, N> reduce(std::array<T, N> a, std::array<T, N> b, aclrtReduceKind kind,
                               aclDataType type)
{
    void *dst = nullptr, *src = nullptr;

    CALL(aclrtMalloc(&dst, sizeof(a), ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtMalloc(&src, sizeof(b), ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtMemcpy(dst, sizeof(a), a.data(), sizeof(a), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy(src, sizeof(b), b.data(), sizeof(b), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtReduceAsync(dst, src, sizeof(a), kind, type, nullptr, nullptr));
    CALL(aclrtSynchronizeStream(nullptr));
    CALL(aclrtMemcpy(a.data(), sizeof(a), dst, sizeof(a), ACL_MEMCPY_DEVICE_TO_HOST));
    CALL(aclrtFree(dst));
    CALL(aclrtFree(src));
    return a;
}

int main()
{
    const auto half = aclFloatToFloat16;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    const std::array<aclFloat16, 3> x{half(1), half(-2), half(0.5)}, y{half(3), half(-4), half(0)};
    const auto most = reduce(x, y, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_FLOAT16);
    EXPECT(most[0] == half(3) && most[1] == half(-2) && most[2] == half(0.5));
    const auto least = reduce<int8_t, 4>({1, -2, 127, -128}, {0, 0, 0, 0},
                                         ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, ACL_INT8);
    EXPECT((least == std::array<int8_t, 4>{0, -2, 0, -128}));
    const auto same =
        reduce<int32_t, 2>({5, 6}, {5, 7}, ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL, ACL_INT32);
    EXPECT((same == std::array<int32_t, 2>{1, 0}));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("largest, smallest, equal");
}
