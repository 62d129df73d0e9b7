// A callback that the stream waits for: what it writes is there for the copy behind it.
#include "expect.h"

#include <atomic>
#include <string>
#include <thread>

int main()
{
    aclrtContext context = nullptr;
    aclrtStream stream = nullptr;
    std::atomic<bool> leave{false};
    void *host = nullptr, *device = nullptr;
    char got[16] = "";

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&context));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMallocHost(&host, 16));
    CALL(aclrtMalloc(&device, 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    std::thread reporter([&] {
        CALL(aclrtSetCurrentContext(context));
        while (!leave)
            (void)aclrtProcessReport(50);
    });
    CALL(aclrtSubscribeReport(static_cast<uint64_t>(reporter.native_handle()), stream));
    auto write_text = [](void *data) { snprintf(static_cast<char *>(data), 16, "written"); };
    CALL(aclrtLaunchCallback(write_text, host, ACL_CALLBACK_BLOCK, stream));
    CALL(aclrtMemcpyAsync(device, 16, host, 16, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtMemcpy(got, 16, device, 16, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(std::string(got) == "written");
    CALL(aclrtUnSubscribeReport(static_cast<uint64_t>(reporter.native_handle()), stream));
    leave = true;
    reporter.join();
    CALL(aclrtFree(device));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts(got);
}
