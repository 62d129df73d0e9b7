/* ASCEND_RT_VISIBLE_DEVICES: device 0 of the program is another one of the host. */
#include "expect.h"

#include <string.h>

static void uuid_of_process(const char *visible, int32_t device, aclrtUuid *uuid)
{
    int ends[2];
    pid_t child;

    EXPECT(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        setenv("ASCEND_RT_VISIBLE_DEVICES", visible, 1);
        CALL(aclInit(NULL));
        CALL(aclrtDeviceGetUuid(device, uuid));
        GIVE(ends[1], *uuid);
        exit(aclFinalize());
    }
    close(ends[1]);
    TAKE(ends[0], *uuid);
    close(ends[0]);
    EXPECT(ended_well(child));
}

int main(void)
{
    aclrtUuid both, second, first;
    uint32_t count;

    uuid_of_process("0,1", 1, &both);
    uuid_of_process("1", 0, &second);
    uuid_of_process("0", 0, &first);
    EXPECT(memcmp(&both, &second, sizeof(both)) == 0);
    EXPECT(memcmp(&both, &first, sizeof(both)) != 0);

    setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
    CALL(aclInit(NULL));
    CALL(aclrtGetDeviceCount(&count));
    EXPECT(count == 1);
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(1));
    puts("device 1 of the host is device 0 of the program");
    return aclFinalize();
}
