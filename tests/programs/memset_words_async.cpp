// Words that are set in the order of a stream, between two copies.
#include "expect.h"

#include <algorithm>

int main()
{
    constexpr size_t count = 4096, bytes = count * sizeof(uint32_t);
    void *device = nullptr, *before = nullptr, *after = nullptr;
    aclrtStream stream = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost(&before, bytes));
    CALL(aclrtMallocHost(&after, bytes));
    CALL(aclrtMemsetD32Async(device, bytes, 1, count, stream));
    CALL(aclrtMemcpyAsync(before, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtMemsetD32Async(device, bytes, 0x3F800000, count / 2, stream)); // 1.0F
    CALL(aclrtMemcpyAsync(after, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    const uint32_t *words = static_cast<uint32_t *>(before);
    EXPECT(std::count(words, words + count, 1U) == static_cast<long>(count));
    const float *numbers = static_cast<float *>(after);
    EXPECT(std::count(numbers, numbers + count, 1.0F) == static_cast<long>(count / 2));
    CALL(aclrtFreeHost(after));
    CALL(aclrtFreeHost(before));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu words\n", count);
}
