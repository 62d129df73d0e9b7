/* What a program prints first: versions, chip, where it runs. */
#include "expect.h"

int main(void)
{
    int32_t major, minor, patch;
    aclrtRunMode mode;

    CALL(aclInit(NULL));
    CALL(aclrtGetVersion(&major, &minor, &patch));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetVersion(NULL, &minor, &patch));
    EXPECT(major == 1 && minor >= 0 && patch >= 0);
    CALL(aclrtGetRunMode(&mode));
    EXPECT(mode == ACL_HOST);
    EXPECT(aclrtGetSocName() && aclrtGetSocName()[0]);
    printf("interface %d.%d.%d, chip %s\n", major, minor, patch, aclrtGetSocName());
    return aclFinalize();
}
