// A vector of the program, registered as page-locked: copies from and to it are queued.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <numeric>
#include <vector>

int main()
{
    std::vector<int> in(1 << 18), out(in.size());
    const size_t bytes = in.size() * sizeof(int);
    aclrtStream stream = nullptr;
    aclrtStreamStatus status;
    aclrtEvent gate = nullptr;
    void *device = nullptr;

    std::iota(in.begin(), in.end(), 0);
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    CALL(aclrtMalloc(&device, bytes));
    CALL(aclrtHostRegister(in.data(), bytes, ACL_HOST_REG_PINNED)); // the overload for C++
    CALL(aclrtHostRegisterV2(out.data(), bytes, ACL_HOST_REG_PINNED));
    CALL(aclrtStreamWaitEvent(stream, gate));
    CALL(aclrtMemcpyAsync(device, bytes, in.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtMemcpyAsync(out.data(), bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_NOT_READY); // no call has waited
    CALL(aclrtRecordEvent(gate, nullptr));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(in == out);
    CALL(aclrtHostUnregister(in.data()));
    CALL(aclrtHostUnregister(out.data()));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyEvent(gate));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu bytes of a vector\n", bytes);
}
