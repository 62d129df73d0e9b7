// ASCEND_RT_VISIBLE_DEVICES as it is written wrongly: what is refused, and where reading stops.
#include "expect.h"

#include <sys/wait.h>

// Of a process of its own, because the list is read once.
static int devices_of(const char *list)
{
    const pid_t child = fork();
    if (child == 0) {
        uint32_t count = 0;
        setenv("ASCEND_RT_VISIBLE_DEVICES", list, 1);
        if (aclInit(nullptr) != ACL_SUCCESS)
            _exit(99);
        const aclError error = aclrtGetDeviceCount(&count);
        EXPECT(error == ACL_SUCCESS || error == ACL_ERROR_RT_NO_DEVICE);
        EXPECT(error == ACL_SUCCESS || aclrtSetDevice(0) == ACL_ERROR_RT_INVALID_DEVICEID);
        _exit(error == ACL_SUCCESS ? static_cast<int>(count) : 0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main()
{
    EXPECT(devices_of("0,1") == 2);
    EXPECT(devices_of("1") == 1);
    EXPECT(devices_of("0,1,7") == 2); // there is no 7: reading stops
    EXPECT(devices_of("0,npu") == 1);
    EXPECT(devices_of("1,0") == 0); // must rise
    EXPECT(devices_of("0,0") == 0);
    EXPECT(devices_of("npu") == 0);
    puts("seven lists");
}
