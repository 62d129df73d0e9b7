/* Physical memory of one process, mapped by another: the number goes by a pipe. */
#include "expect.h"

#include <string.h>

enum { BYTES = 4 << 20 };

static void *map_whole(aclrtDrvMemHandle handle)
{
    void *at;

    CALL(aclrtReserveMemAddress(&at, BYTES, 0, NULL, 0));
    CALL(aclrtMapMem(at, BYTES, 0, handle, 0));
    return at;
}

static void unmap_whole(void *at, aclrtDrvMemHandle handle)
{
    CALL(aclrtUnmapMem(at));
    CALL(aclrtReleaseMemAddress(at));
    CALL(aclrtFreePhysical(handle));
}

static void read_there(int in, int out)
{
    aclrtDrvMemHandle handle;
    uint64_t number;
    char got[32];
    int32_t pid;
    void *at;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtDeviceGetBareTgid(&pid));
    GIVE(out, pid);
    TAKE(in, number);
    CALL(aclrtMemImportFromShareableHandle(number, 0, &handle));
    at = map_whole(handle);
    CALL(aclrtMemcpy(got, sizeof(got), at, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, "physical") == 0);
    unmap_whole(at, handle);
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    const aclrtPhysicalMemProp prop = {
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    const char text[32] = "physical";
    aclrtDrvMemHandle handle;
    uint64_t number;
    int in, out;
    int32_t pid;
    void *at;
    pid_t child = start_child(read_there, &in, &out);

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMallocPhysical(&handle, BYTES, &prop, 0));
    at = map_whole(handle);
    CALL(aclrtMemcpy(at, BYTES, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    TAKE(in, pid);
    CALL(aclrtMemSetPidToShareableHandle(number, &pid, 1));
    GIVE(out, number);
    EXPECT(ended_well(child));
    unmap_whole(at, handle);
    CALL(aclrtResetDevice(0));
    puts(text);
    return aclFinalize();
}
