// The callback for failed tasks: which task of which stream failed, and how.
#include "expect.h"

#include <acl/acl_npud.h>

static struct {
    int calls;
    uint32_t task, stream, device, code;
} seen;

static void note_exception(aclrtExceptionInfo *info)
{
    seen.calls++;
    seen.task = aclrtGetTaskIdFromExceptionInfo(info);
    seen.stream = aclrtGetStreamIdFromExceptionInfo(info);
    seen.device = aclrtGetDeviceIdFromExceptionInfo(info);
    seen.code = aclrtGetErrorCodeFromExceptionInfo(info);
}

int main()
{
    aclrtStream stream = nullptr;
    uint32_t task;
    int32_t id;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(1));
    CALL(aclrtSetExceptionInfoCallback(note_exception));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtStreamGetId(stream, &id));
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_TIMEOUT, stream));
    CALL(aclrtGetThreadLastTaskId(&task));
    FAILS(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(stream));
    EXPECT(seen.calls == 1 && seen.task == task && seen.stream == static_cast<uint32_t>(id));
    EXPECT(seen.device == 1 && seen.code == ACL_ERROR_RT_AICORE_TIMEOUT);
    CALL(aclrtSetExceptionInfoCallback(nullptr));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(1));
    CALL(aclFinalize());
    printf("task %u of stream %u: %u\n", seen.task, seen.stream, seen.code);
}
