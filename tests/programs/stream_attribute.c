/* Attributes of a stream: a tag of the program, and the priority. */
#include "expect.h"

int main(void)
{
    aclrtStreamAttrValue value = {.userCustomTag = 42}, got = {0};
    aclrtStream stream;
    uint32_t priority;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    CALL(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &got));
    EXPECT(got.userCustomTag == 42);
    value.streamPriority = 3;
    CALL(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
    CALL(aclrtStreamGetPriority(stream, &priority));
    EXPECT(priority == 3);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(stream, (aclrtStreamAttr)99, &value));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("tag %u, priority %u\n", got.userCustomTag, priority);
    return aclFinalize();
}
