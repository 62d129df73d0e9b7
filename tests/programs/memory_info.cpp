// How much memory a device has, and what an allocation takes of it.
#include "expect.h"

int main()
{
    constexpr size_t size = 64 << 20;
    size_t total, before, during, after;
    void *memory = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    EXPECT(before <= total && total >= size);
    CALL(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtGetMemInfo(ACL_HBM_MEM, &during, &total));
    EXPECT(before - during >= size);
    CALL(aclrtFree(memory));
    CALL(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    EXPECT(after == before);
    FAILS(ACL_ERROR_RT_INVALID_MEMORY_TYPE,
          aclrtGetMemInfo(static_cast<aclrtMemAttr>(18), &after, &total));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu of %zu MiB are free\n", after >> 20, total >> 20);
}
