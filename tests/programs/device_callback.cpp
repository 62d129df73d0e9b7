// A library that is told when its host program opens and releases a device.
#include "expect.h"

#include <string>

static void note(int32_t device, aclrtDeviceState state, void *args)
{
    static_cast<std::string *>(args)->append(std::to_string(device) + ":" + std::to_string(state) +
                                             " ");
}

int main()
{
    std::string seen;

    CALL(aclInit(nullptr));
    CALL(aclrtRegDeviceStateCallback("library", note, &seen));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtRegDeviceStateCallback("library", note, &seen));
    CALL(aclrtSetDevice(1));
    CALL(aclrtResetDevice(1));
    EXPECT(seen == "1:0 1:1 1:2 1:3 ");
    CALL(aclrtRegDeviceStateCallback("library", nullptr, nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtResetDevice(0));
    EXPECT(seen == "1:0 1:1 1:2 1:3 ");
    CALL(aclFinalize());
    printf("seen: %s\n", seen.c_str());
}
