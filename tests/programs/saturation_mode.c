/* Saturating arithmetic, as programs for older chips ask for it. */
#include "expect.h"

int main(void)
{
    aclrtFloatOverflowMode mode;

    CALL(aclInit(NULL));
    CALL(aclrtGetDeviceSatMode(&mode));
    EXPECT(mode == ACL_RT_OVERFLOW_MODE_INFNAN);
    CALL(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    CALL(aclrtGetDeviceSatMode(&mode));
    EXPECT(mode == ACL_RT_OVERFLOW_MODE_SATURATION);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceSatMode(NULL));
    CALL(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    puts("saturating, and back");
    return aclFinalize();
}
