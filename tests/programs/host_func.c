/* Functions of the host in the order of a stream, run by a thread of the library. */
#include "expect.h"

static void add_one(void *number)
{
    ++*(int *)number;
}

static void double_it(void *number)
{
    *(int *)number *= 2;
}

int main(void)
{
    aclrtStream stream;
    int number = 0;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 8; i++) {
        CALL(aclrtLaunchHostFunc(stream, add_one, &number));
        CALL(aclrtLaunchHostFunc(stream, double_it, &number));
    }
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(number == 510);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchHostFunc(stream, NULL, &number));
    FAILS(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(1, stream));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("%d\n", number);
    return aclFinalize();
}
