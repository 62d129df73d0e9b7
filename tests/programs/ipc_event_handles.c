/* Handles as such: the same each time, opened twice, and what is none. */
#include "expect.h"

#include <acl/acl_npud.h>
#include <string.h>

int main(void)
{
    aclrtIpcEventHandle handle, again, wrong = {"no handle"};
    aclrtEvent event, opened[2], plain;
    aclnpudIpcEventInfo info;
    int32_t pid;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(1));
    CALL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CALL(aclrtIpcGetEventHandle(event, &handle));
    CALL(aclrtIpcGetEventHandle(event, &again));
    EXPECT(memcmp(&handle, &again, sizeof(handle)) == 0);
    CALL(aclrtDeviceGetBareTgid(&pid));
    CALL(aclnpudIpcEventGetInfo(handle, &info));
    EXPECT(info.deviceId == 1 && info.pid == pid && info.alive == 1);
    CALL(aclrtIpcOpenEventHandle(handle, &opened[0]));
    CALL(aclrtIpcOpenEventHandle(handle, &opened[1]));
    CALL(aclrtRecordEvent(opened[0], NULL));
    CALL(aclrtSynchronizeEvent(opened[1]));
    CALL(aclrtCreateEvent(&plain));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtIpcGetEventHandle(plain, &again));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtIpcOpenEventHandle(wrong, &plain));
    CALL(aclrtDestroyEvent(plain));
    CALL(aclrtDestroyEvent(opened[0]));
    CALL(aclrtDestroyEvent(opened[1]));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtResetDevice(1));
    printf("an event of device %d of process %d\n", info.deviceId, info.pid);
    return aclFinalize();
}
