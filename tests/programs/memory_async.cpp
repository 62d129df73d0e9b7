// Page-locked host memory, and copies that the call does not wait for.
#include "expect.h"

#include <numeric>

int main()
{
    constexpr size_t count = 1 << 18, bytes = count * sizeof(int);
    aclrtStream stream = nullptr;
    aclrtStreamStatus status;
    aclrtEvent gate = nullptr;
    void *in = nullptr, *out = nullptr, *device = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    CALL(aclrtMallocHost(&in, bytes));
    CALL(aclrtMallocHost(&out, bytes));
    CALL(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    int *numbers = static_cast<int *>(in), *got = static_cast<int *>(out);
    std::iota(numbers, numbers + count, 1);
    CALL(aclrtStreamWaitEvent(stream, gate));
    CALL(aclrtMemcpyAsync(device, bytes, in, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtMemcpyAsync(out, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_NOT_READY); // no call has waited
    CALL(aclrtRecordEvent(gate, nullptr));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(std::accumulate(got, got + count, 0LL) ==
           static_cast<long long>(count) * (count + 1) / 2);
    CALL(aclrtFree(device));
    CALL(aclrtFreeHost(out));
    CALL(aclrtFreeHost(in));
    CALL(aclrtDestroyEvent(gate));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu numbers there and back\n", count);
}
