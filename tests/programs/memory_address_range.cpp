// Which allocation an address belongs to, as allocators with blocks of their own ask.
#include "expect.h"

int main()
{
    constexpr size_t bytes = 3 << 20;
    void *memory = nullptr, *host = nullptr, *start = nullptr;
    aclrtPtrAttributes attributes;
    size_t size = 0;
    int local = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(1));
    CALL(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost(&host, 4096));
    char *inside = static_cast<char *>(memory) + bytes / 2;

    CALL(aclrtMemGetAddressRange(inside, &start, &size));
    EXPECT(start == memory && size >= bytes);
    CALL(aclrtMemGetAddressRange(inside, nullptr, &size));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemGetAddressRange(&local, &start, &size));

    // As allocators do that share what a tensor lies in.
    char key[65];
    CALL(aclrtIpcMemGetExportKey(start, size, key, sizeof(key), 0));
    CALL(aclrtIpcMemClose(key));

    CALL(aclrtPointerGetAttributes(inside, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && attributes.location.id == 1);
    CALL(aclrtPointerGetAttributes(host, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    CALL(aclrtPointerGetAttributes(&local, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);

    void *list[] = {memory, inside, &local};
    uint32_t all = 2;
    CALL(aclrtCheckMemType(list, 2, ACL_RT_MEM_TYPE_DEV, &all, 0));
    EXPECT(all == 1);
    CALL(aclrtCheckMemType(list, 3, ACL_RT_MEM_TYPE_DEV, &all, 0));
    EXPECT(all == 0);

    CALL(aclrtFree(memory));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemGetAddressRange(inside, &start, &size));
    CALL(aclrtFreeHost(host));
    CALL(aclrtResetDevice(1));
    CALL(aclFinalize());
    puts("the address is in the middle of 3 MiB of device 1");
}
