// A stream that is thrown away with its work, which would take a minute.
#include "expect.h"

#include <acl/acl_npud.h>

#include <chrono>

int main()
{
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEvent(&event));
    const auto begin = std::chrono::steady_clock::now();
    CALL(aclnpudLaunchDelay(60000000, ACL_SUCCESS, stream));
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtDestroyStreamForce(stream));
    CALL(aclrtSynchronizeDevice());
    EXPECT(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("thrown away");
}
