/* How many streams are left, and that each takes one. */
#include "expect.h"

int main(void)
{
    aclrtStream streams[10];
    uint32_t before, after;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetStreamAvailableNum(&before));
    for (int i = 0; i < 10; i++)
        CALL(aclrtCreateStream(&streams[i]));
    CALL(aclrtGetStreamAvailableNum(&after));
    EXPECT(after == before - 10);
    for (int i = 0; i < 10; i++)
        CALL(aclrtDestroyStream(streams[i]));
    CALL(aclrtGetStreamAvailableNum(&after));
    EXPECT(after == before);
    CALL(aclrtResetDevice(0));
    printf("%u streams can be made\n", after);
    return aclFinalize();
}
