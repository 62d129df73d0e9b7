// What a pointer is that came from somewhere else.
#include "expect.h"

#include <memory>

int main()
{
    aclrtPtrAttributes attributes;
    void *device = nullptr, *host = nullptr;
    auto plain = std::make_unique<char[]>(64);

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(1));
    CALL(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost(&host, 4096));
    CALL(aclrtPointerGetAttributes(static_cast<char *>(device) + 100, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && attributes.location.id == 1);
    CALL(aclrtPointerGetAttributes(host, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    CALL(aclrtPointerGetAttributes(plain.get(), &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtPointerGetAttributes(nullptr, &attributes));
    CALL(aclrtFree(device));
    CALL(aclrtFreeHost(host));
    CALL(aclrtResetDevice(1));
    CALL(aclFinalize());
    puts("device, host, unregistered");
}
