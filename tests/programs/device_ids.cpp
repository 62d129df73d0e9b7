// Ids of devices, with a list of visible ones: what is device 0 here is device 1 of the host.
#include "expect.h"

int main()
{
    int32_t logic = -1, user = -1, phy = -1;
    uint32_t count = 0;

    setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
    CALL(aclInit(nullptr));
    CALL(aclrtGetDeviceCount(&count));
    EXPECT(count == 1);
    CALL(aclrtGetLogicDevIdByUserDevId(0, &logic));
    EXPECT(logic == 1);
    CALL(aclrtGetUserDevIdByLogicDevId(logic, &user));
    EXPECT(user == 0);
    CALL(aclrtGetPhyDevIdByLogicDevId(logic, &phy));
    CALL(aclrtGetLogicDevIdByPhyDevId(phy, &logic));
    EXPECT(logic == 1);
    CALL(aclrtGetPhyDevIdByUserDevId(0, &phy));
    CALL(aclrtGetUserDevIdByPhyDevId(phy, &user));
    EXPECT(user == 0);
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetUserDevIdByLogicDevId(0, &user)); // hidden
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetLogicDevIdByUserDevId(1, &logic));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetLogicDevIdByUserDevId(-1, &logic));
    CALL(aclFinalize());
    puts("device 0 of the program is device 1 of the host");
}
