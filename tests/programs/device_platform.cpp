// The chip as text and as numbers, the way programs that tile their work ask for it.
#include "expect.h"

#include <acl/acl_platform.h>

#include <string>

static std::string item(aclplatformDevInfo what)
{
    char text[64] = "";
    CALL(aclplatformGetDeviceInfo(what, text, sizeof(text)));
    return text;
}

int main()
{
    int64_t cores = 0, vector_cores = 0, l2 = 0;
    int32_t fits = -1;
    char small[2];

    CALL(aclInit(nullptr));
    CALL(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores));
    CALL(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &vector_cores));
    CALL(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &l2));
    EXPECT(std::stoll(item(ACL_PLATFORM_CUBE_CORE_CNT)) == cores);
    EXPECT(std::stoll(item(ACL_PLATFORM_VECTOR_CORE_CNT)) == vector_cores);
    EXPECT(std::stoll(item(ACL_PLATFORM_L2_SIZE)) == l2);
    EXPECT(std::stoll(item(ACL_PLATFORM_L1_SIZE)) > 0);
    EXPECT(std::stoll(item(ACL_PLATFORM_MEMORY_SIZE)) > 0);
    EXPECT(item(ACL_PLATFORM_SOC_VERSION) == aclrtGetSocName());
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclplatformGetDeviceInfo(ACL_PLATFORM_SOC_VERSION, small, sizeof(small)));

    CALL(aclrtCheckArchCompatibility(aclrtGetSocName(), &fits));
    EXPECT(fits == 1);
    CALL(aclrtCheckArchCompatibility("Ascend310", &fits));
    EXPECT(fits == 0);
    CALL(aclFinalize());
    printf("%lld cube cores\n", static_cast<long long>(cores));
}
