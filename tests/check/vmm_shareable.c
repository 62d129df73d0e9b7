/* check: race */
/* Physical memory that two processes have mapped, each at addresses of its own. */
#include "check.h"

static void produce(int in, int out)
{
    uint64_t number;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtDrvMemHandle handle = make_physical();
    void *memory = map_physical(handle);

    CALL(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE,
                                         ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    GIVE(out, number);
    TAKE(in, number);
    end_stream(stream);
    unmap_physical(memory);
    CALL(aclrtFreePhysical(handle));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    aclrtDrvMemHandle handle;
    uint64_t number;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory, *host = NEW_HOST(BYTES);

    TAKE(in, number);
    CALL(aclrtMemImportFromShareableHandle(number, 0, &handle));
    memory = map_physical(handle);
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for an event that is recorded after the write */
    end_stream(stream);
    unmap_physical(memory);
    CALL(aclrtFreePhysical(handle));
    GIVE(out, number);
    EXPECT(ended_well(child));
    CALL(aclrtFreeHost(host));
    end_device();
}
