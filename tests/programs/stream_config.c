/* Streams that are made from a handle with options. */
#include "expect.h"

int main(void)
{
    aclrtStreamConfigHandle *handle;
    uint32_t priority = 5, got;
    size_t flag = ACL_STREAM_FAST_SYNC;
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    handle = aclrtCreateStreamConfigHandle();
    EXPECT(handle);
    CALL(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, sizeof(priority)));
    CALL(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flag, sizeof(flag)));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, 1));
    CALL(aclrtCreateStreamV2(&stream, handle));
    CALL(aclrtDestroyStreamConfigHandle(handle));
    CALL(aclrtStreamGetPriority(stream, &got));
    EXPECT(got == 5);
    CALL(aclrtStreamGetFlags(stream, &got));
    EXPECT(got == ACL_STREAM_FAST_SYNC);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("priority 5, fast sync");
    return aclFinalize();
}
