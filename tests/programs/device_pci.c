/* Bus ids, as programs use them that join devices and network cards. */
#include "expect.h"

#include <string.h>

int main(void)
{
    char first[16], second[16], small[12];
    int32_t device = -1;
    uint64_t link;

    CALL(aclInit(NULL));
    CALL(aclrtDeviceGetPCIBusId(0, first, sizeof(first)));
    CALL(aclrtDeviceGetPCIBusId(1, second, sizeof(second)));
    EXPECT(strlen(first) == 12 && first[4] == ':' && first[7] == ':' && first[10] == '.');
    EXPECT(strcmp(first, second) != 0);
    CALL(aclrtDeviceGetByPCIBusId(second, &device));
    EXPECT(device == 1);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceGetPCIBusId(0, small, sizeof(small)));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceGetByPCIBusId("0000:00:00.0", &device));
    CALL(aclrtGetDevicesTopo(0, 1, &link));
    EXPECT(link == ACL_RT_DEVS_TOPOLOGY_PHB);
    printf("%s and %s\n", first, second);
    return aclFinalize();
}
