/* How long the work of a stream took. */
#include "expect.h"

#include <acl/acl_npud.h>

int main(void)
{
    aclrtEvent start, end;
    aclrtStream stream;
    float ms;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEvent(&start));
    CALL(aclrtCreateEvent(&end));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventElapsedTime(&ms, start, end));
    CALL(aclrtRecordEvent(start, stream));
    CALL(aclnpudLaunchDelay(20000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(end, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtEventElapsedTime(&ms, start, end));
    EXPECT(ms >= 20);
    printf("%.3f ms\n", ms);
    CALL(aclrtEventElapsedTime(&ms, end, start));
    EXPECT(ms <= -20);
    CALL(aclrtDestroyEvent(start));
    CALL(aclrtDestroyEvent(end));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
