// Advice for managed memory, and what is known of it: several attributes, several ranges.
#include "expect.h"

#include <vector>

int main()
{
    constexpr size_t block = 2 << 20;
    const aclrtMemManagedLocation first = {ACL_MEM_LOCATIONTYPE_DEVICE, 0};
    const aclrtMemManagedLocation second = {ACL_MEM_LOCATIONTYPE_DEVICE, 1};
    aclrtStream stream = nullptr;
    void *managed = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMemAllocManaged(&managed, 2 * block, ACL_RT_MEM_ATTACH_GLOBAL));
    char *half = static_cast<char *>(managed) + block;
    CALL(aclrtMemManagedAdvise(managed, 2 * block, ACL_MEM_ADVISE_SET_READ_MOSTLY, first));
    CALL(aclrtMemManagedAdvise(half, block, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, second));
    CALL(aclrtMemManagedAdvise(managed, block, ACL_MEM_ADVISE_SET_ACCESSED_BY, first));
    CALL(aclrtMemManagedAdvise(managed, block, ACL_MEM_ADVISE_SET_ACCESSED_BY, second));

    int32_t mostly = -9, preferred = -9;
    std::vector<aclrtMemManagedRangeAttribute> names = {ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                                        ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    std::vector<void *> values = {&mostly, &preferred};
    std::vector<size_t> sizes = {sizeof(mostly), sizeof(preferred)};
    CALL(aclrtMemManagedGetAttrs(names.data(), names.size(), half, block, values.data(),
                                 sizes.data()));
    EXPECT(mostly == 1 && preferred == 1);
    CALL(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed, 2 * block,
                                &preferred, sizeof(preferred)));
    EXPECT(preferred == -2); // not the same for all of it
    int32_t accessors[3] = {};
    CALL(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, block, accessors,
                                sizeof(accessors)));
    EXPECT(accessors[0] == 0 && accessors[1] == 1 && accessors[2] == -2);

    const void *ranges[] = {managed, half};
    size_t lengths[] = {block, block}, starts[] = {0, 1};
    aclrtMemManagedLocation places[] = {first, second};
    CALL(aclrtMemManagedPrefetchBatchAsync(ranges, lengths, 2, places, starts, 2, 0, stream));
    int32_t where = -9;
    CALL(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, half, block,
                                &where, sizeof(where)));
    EXPECT(where == 1);
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtFree(managed));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("the second half is for device 1");
}
