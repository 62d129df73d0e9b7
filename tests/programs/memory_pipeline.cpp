// Two buffers on two streams: while one is copied back, the other is filled.
#include "expect.h"

#include <array>

struct lane {
    aclrtStream stream = nullptr;
    aclrtEvent done = nullptr;
    void *device = nullptr;
    void *host = nullptr;
};

int main()
{
    constexpr size_t size = 64 << 10;
    std::array<lane, 2> lanes;
    long sum = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    for (lane &l : lanes) {
        CALL(aclrtCreateStream(&l.stream));
        CALL(aclrtCreateEventExWithFlag(&l.done, ACL_EVENT_SYNC));
        CALL(aclrtMalloc(&l.device, size, ACL_MEM_MALLOC_HUGE_FIRST));
        CALL(aclrtMallocHost(&l.host, size));
    }
    for (int i = 0; i < 32; i++) {
        lane &l = lanes[i % 2];
        CALL(aclrtSynchronizeEvent(l.done)); // at once, before its first record
        sum += i < 2 ? 0 : static_cast<unsigned char *>(l.host)[size - 1];
        CALL(aclrtMemsetAsync(l.device, size, i, size, l.stream));
        CALL(aclrtMemcpyAsync(l.host, size, l.device, size, ACL_MEMCPY_DEVICE_TO_HOST, l.stream));
        CALL(aclrtRecordEvent(l.done, l.stream));
    }
    CALL(aclrtSynchronizeDevice());
    for (lane &l : lanes) {
        sum += static_cast<unsigned char *>(l.host)[size - 1];
        CALL(aclrtFree(l.device));
        CALL(aclrtFreeHost(l.host));
        CALL(aclrtDestroyEvent(l.done));
        CALL(aclrtDestroyStream(l.stream));
    }
    EXPECT(sum == 31 * 32 / 2);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("32 blocks, sum %ld\n", sum);
}
