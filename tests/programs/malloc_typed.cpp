// Typed allocations, as C++ programs write them.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <algorithm>

int main()
{
    constexpr size_t count = 1000;
    float *device = nullptr, *host = nullptr, *managed = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&device, count * sizeof(float)));
    CALL(aclrtMallocHost(&host, count * sizeof(float)));
    CALL(aclrtMemAllocManaged(&managed, count * sizeof(float)));
    std::fill_n(host, count, 0.5F);
    CALL(aclrtMemcpy(device, count * sizeof(float), host, count * sizeof(float),
                     ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy(managed, count * sizeof(float), device, count * sizeof(float),
                     ACL_MEMCPY_DEFAULT));
    std::fill_n(host, count, 0.0F);
    CALL(aclrtMemcpy(host, count * sizeof(float), managed, count * sizeof(float),
                     ACL_MEMCPY_DEFAULT));
    EXPECT(std::count(host, host + count, 0.5F) == static_cast<long>(count));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMalloc(static_cast<float **>(nullptr), 4));
    CALL(aclrtFree(managed));
    CALL(aclrtFree(device));
    CALL(aclrtFreeHost(host));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu numbers in three kinds of memory\n", count);
}
