/* Managed memory: the program and the device use the same address. */
#include "expect.h"

int main(void)
{
    const aclrtMemManagedLocation device = {ACL_MEM_LOCATIONTYPE_DEVICE, 0};
    const aclrtMemManagedLocation host = {ACL_MEM_LOCATIONTYPE_HOST, 0};
    const size_t bytes = 4 << 20;
    aclrtStream stream;
    void *managed, *memory;
    int32_t where;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMemAllocManaged(&managed, bytes, ACL_RT_MEM_ATTACH_GLOBAL));
    CALL(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    ((int *)managed)[0] = 41; /* the host writes */
    CALL(aclrtMemManagedAdvise(managed, bytes, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    CALL(aclrtMemManagedPrefetchAsync(managed, bytes, device, 0, stream));
    CALL(aclrtMemcpyAsync(memory, bytes, managed, bytes, ACL_MEMCPY_DEFAULT, stream));
    CALL(aclrtMemsetAsync(managed, bytes, 0, bytes, stream)); /* the device writes */
    CALL(aclrtMemManagedPrefetchAsync(managed, bytes, host, 0, stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(((int *)managed)[0] == 0);
    CALL(aclrtMemcpy(managed, bytes, memory, bytes, ACL_MEMCPY_DEFAULT));
    EXPECT(((int *)managed)[0] == 41);
    CALL(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, bytes,
                                &where, sizeof(where)));
    EXPECT(where == -1);
    CALL(aclrtFree(memory));
    CALL(aclrtFree(managed));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("written here and there");
    return aclFinalize();
}
