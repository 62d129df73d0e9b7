// Asynchronous copies of ordinary memory: it may be changed as soon as the call has returned.
#include "expect.h"

#include <algorithm>
#include <vector>

int main()
{
    aclrtStream stream = nullptr;
    void *device = nullptr;
    std::vector<char> host(4096, 'x'), got(4096);

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, host.size(), ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtMemcpyAsync(device, host.size(), host.data(), host.size(), ACL_MEMCPY_HOST_TO_DEVICE,
                          stream));
    std::fill(host.begin(), host.end(), 'y');
    CALL(aclrtMemcpyAsync(got.data(), got.size(), device, got.size(), ACL_MEMCPY_DEVICE_TO_HOST,
                          stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(std::all_of(got.begin(), got.end(), [](char c) { return c == 'x'; }));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtMemcpyAsync(got.data(), 8, host.data(), 8, ACL_MEMCPY_HOST_TO_HOST, stream));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("the copy has what was there at the call");
}
