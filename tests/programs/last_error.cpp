// The last code of the runtime, per thread: peeked at, taken, and not seen by other threads.
#include "expect.h"

#include <thread>

int main()
{
    CALL(aclInit(nullptr));
    CALL(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
    CALL(aclrtSetDevice(0)); // does not clear it
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    std::thread([] { CALL(aclrtGetLastError(ACL_RT_THREAD_LEVEL)); }).join();
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    CALL(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("kept, taken, gone");
}
