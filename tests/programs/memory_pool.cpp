// Memory in the order of a stream, from a pool that keeps what it has.
#include "expect.h"

#include <acl/acl_rt_memory_soma.h>

static uint64_t attribute(aclrtMemPool pool, aclrtMemPoolAttr which)
{
    uint64_t value = 0;
    CALL(aclrtMemPoolGetAttr(pool, which, &value));
    return value;
}

int main()
{
    constexpr size_t bytes = 1 << 20;
    aclrtMemPoolProps properties = {};
    aclrtStream stream = nullptr;
    aclrtMemPool pool = nullptr;
    void *first = nullptr, *second = nullptr;
    uint64_t keep = 64 << 20;
    char byte = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    properties.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    CALL(aclrtMemPoolCreate(&pool, &properties));
    CALL(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &keep));
    CALL(aclrtMemPoolMallocAsync(&first, bytes, pool, stream));
    CALL(aclrtMemsetAsync(first, bytes, 'p', bytes, stream));
    CALL(aclrtMemcpyAsync(&byte, 1, first, 1, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtMemPoolFreeAsync(first, stream));
    CALL(aclrtMemPoolMallocAsync(&second, bytes, pool, stream));
    EXPECT(second == first && byte == 'p'); // without waiting: the order of the stream suffices
    EXPECT(attribute(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) >= bytes);
    CALL(aclrtMemPoolFreeAsync(second, stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(attribute(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) >= bytes);
    CALL(aclrtMemPoolTrimTo(pool, 0));
    EXPECT(attribute(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    CALL(aclrtMemPoolDestroy(pool));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("the same memory twice");
}
