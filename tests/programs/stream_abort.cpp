// Work that is taken back: the thread that waits for it is told, and the stream can be used again.
#include "expect.h"

#include <acl/acl_npud.h>

#include <thread>

int main()
{
    aclrtStream stream = nullptr;
    aclrtContext context = nullptr;
    aclrtStreamStatus status;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&context));
    CALL(aclrtCreateStream(&stream));
    CALL(aclnpudLaunchDelay(60000000, ACL_SUCCESS, stream));
    std::thread waiter([&] {
        CALL(aclrtSetCurrentContext(context));
        const aclError code = aclrtSynchronizeStream(stream); // 0 if it comes after the abort
        EXPECT(code == ACL_SUCCESS || code == ACL_ERROR_RT_STREAM_ABORT);
    });
    CALL(aclrtStreamAbort(stream));
    waiter.join();
    CALL(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_COMPLETE);
    CALL(aclnpudLaunchDelay(1000, ACL_SUCCESS, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("aborted, and used again");
}
