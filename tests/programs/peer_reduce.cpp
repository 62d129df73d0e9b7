// Vectors of two devices are added on one of them, which was let into the other.
#include "expect.h"

#include <array>

int main()
{
    std::array<int32_t, 256> numbers, got;
    std::array<void *, 2> memory{};
    aclrtStream stream = nullptr;

    numbers.fill(21);
    CALL(aclInit(nullptr));
    for (int32_t device : {1, 0}) {
        CALL(aclrtSetDevice(device));
        CALL(aclrtMalloc(&memory[device], sizeof(numbers), ACL_MEM_MALLOC_HUGE_FIRST_P2P));
        CALL(aclrtMemcpy(memory[device], sizeof(numbers), numbers.data(), sizeof(numbers),
                         ACL_MEMCPY_HOST_TO_DEVICE));
    }
    CALL(aclrtDeviceEnablePeerAccess(1, 0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtReduceAsync(memory[0], memory[1], sizeof(numbers), ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                          ACL_INT32, stream, nullptr));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtMemcpy(got.data(), sizeof(got), memory[0], sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int32_t number : got)
        EXPECT(number == 42);
    CALL(aclrtDestroyStream(stream));
    for (int32_t device : {0, 1}) {
        CALL(aclrtFree(memory[device]));
        CALL(aclrtResetDevice(device));
    }
    CALL(aclFinalize());
    printf("%zu numbers\n", got.size());
}
