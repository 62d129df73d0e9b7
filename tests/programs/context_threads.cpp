// Threads begin without a context, and take that of the main thread.
#include "expect.h"

#include <atomic>
#include <thread>
#include <vector>

int main()
{
    std::atomic<int> done{0};
    aclrtContext context = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&context));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            aclrtStream stream = nullptr;
            FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&stream));
            CALL(aclrtSetCurrentContext(context));
            CALL(aclrtCreateStream(&stream));
            CALL(aclrtSynchronizeStream(stream));
            CALL(aclrtDestroyStream(stream));
            done++;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT(done == 4);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("four threads, one context");
}
