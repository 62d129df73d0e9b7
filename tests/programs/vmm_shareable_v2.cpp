// The second form of shareable handles, for any process of the user: a fabric handle within a host.
#include "expect.h"

#include <cstring>

constexpr size_t bytes = 2 << 20;

struct mapping {
    explicit mapping(aclrtDrvMemHandle physical) : handle(physical)
    {
        CALL(aclrtReserveMemAddress(&at, bytes, 0, nullptr, 0));
        CALL(aclrtMapMem(at, bytes, 0, handle, 0));
    }
    mapping(const mapping &) = delete;
    ~mapping()
    {
        CALL(aclrtUnmapMem(at));
        CALL(aclrtReleaseMemAddress(at));
        CALL(aclrtFreePhysical(handle));
    }
    aclrtDrvMemHandle handle;
    void *at = nullptr;
};

static void answer(int in, int out)
{
    aclrtDrvMemHandle handle = nullptr;
    aclrtMemFabricHandle shared = {};

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    TAKE(in, shared);
    CALL(
        aclrtMemImportFromShareableHandleV2(&shared, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &handle));
    {
        const mapping there(handle);
        CALL(aclrtMemset(there.at, bytes, 'A', bytes));
        GIVE(out, shared);
    }
    CALL(aclrtResetDevice(0));
}

int main()
{
    aclrtPhysicalMemProp prop = {};
    aclrtMemFabricHandle shared = {};
    aclrtDrvMemHandle handle = nullptr;
    int in = -1, out = -1;
    char last = 0;
    const pid_t child = start_child(answer, &in, &out);

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    CALL(aclrtMallocPhysical(&handle, bytes, &prop, 0));
    {
        const mapping here(handle);
        CALL(aclrtMemExportToShareableHandleV2(handle,
                                               ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                               ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &shared));
        GIVE(out, shared);
        TAKE(in, shared);
        const char *end = static_cast<char *>(here.at) + bytes;
        CALL(aclrtMemcpy(&last, 1, end - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        EXPECT(last == 'A');
        EXPECT(ended_well(child));
    }
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("the last byte is %c\n", last);
}
