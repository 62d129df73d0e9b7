// A thread per device, as frameworks have them, each with its own stream and memory.
#include "expect.h"

#include <thread>
#include <vector>

static void work(int32_t device)
{
    aclrtStream stream = nullptr;
    void *memory = nullptr;
    std::vector<unsigned char> got(1 << 16);
    int32_t now = -1;

    CALL(aclrtSetDevice(device));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&memory, got.size(), ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 50; i++) {
        CALL(aclrtMemsetAsync(memory, got.size(), device + i, got.size(), stream));
        CALL(aclrtSynchronizeStream(stream));
        CALL(aclrtMemcpy(got.data(), got.size(), memory, got.size(), ACL_MEMCPY_DEVICE_TO_HOST));
        EXPECT(got.front() == device + i && got.back() == device + i);
    }
    CALL(aclrtGetDevice(&now));
    EXPECT(now == device);
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(device));
}

int main()
{
    std::vector<std::thread> threads;
    uint32_t count;

    CALL(aclInit(nullptr));
    CALL(aclrtGetDeviceCount(&count));
    for (uint32_t i = 0; i < count; i++)
        threads.emplace_back(work, static_cast<int32_t>(i));
    for (std::thread &thread : threads)
        thread.join();
    CALL(aclFinalize());
    printf("%u threads\n", count);
}
