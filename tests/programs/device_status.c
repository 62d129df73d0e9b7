/* What a monitor asks of each device; it need not set any. */
#include "expect.h"

#include <string.h>

int main(void)
{
    aclrtDeviceStatus status;
    aclrtUuid first, second;
    int32_t least, greatest, active, pid;
    uint32_t count;

    CALL(aclInit(NULL));
    CALL(aclrtGetDeviceCount(&count));
    for (uint32_t i = 0; i < count; i++) {
        CALL(aclrtQueryDeviceStatus((int32_t)i, &status));
        EXPECT(status == ACL_RT_DEVICE_STATUS_NORMAL);
        CALL(aclrtGetPrimaryCtxState((int32_t)i, NULL, &active));
        EXPECT(active == 0);
    }
    CALL(aclrtDeviceGetUuid(0, &first));
    CALL(aclrtDeviceGetUuid(1, &second));
    EXPECT(memcmp(&first, &second, sizeof(first)) != 0);
    CALL(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(least == 7 && greatest == 0);
    CALL(aclrtDeviceGetBareTgid(&pid));
    printf("%u devices are well, and this is process %d\n", count, pid);
    return aclFinalize();
}
