// One stream lets four begin, and goes on when all four are done.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <array>

int main()
{
    constexpr size_t part = 1024;
    std::array<aclrtStream, 4> workers{};
    std::array<aclrtEvent, 4> done{};
    std::array<char, 4 * part> got{};
    aclrtStream main_stream = nullptr;
    aclrtEvent begun = nullptr;
    void *memory = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&main_stream));
    CALL(aclrtCreateEvent(&begun, ACL_EVENT_SYNC));
    CALL(aclrtMalloc(&memory, got.size(), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemsetAsync(memory, got.size(), '.', got.size(), main_stream));
    CALL(aclrtRecordEvent(begun, main_stream));
    for (size_t i = 0; i < workers.size(); i++) {
        CALL(aclrtCreateStream(&workers[i]));
        CALL(aclrtCreateEvent(&done[i], ACL_EVENT_SYNC));
        CALL(aclrtStreamWaitEvent(workers[i], begun));
        CALL(aclrtMemsetAsync(static_cast<char *>(memory) + i * part, part,
                              'a' + static_cast<int>(i), part, workers[i]));
        CALL(aclrtRecordEvent(done[i], workers[i]));
        CALL(aclrtStreamWaitEvent(main_stream, done[i]));
    }
    CALL(aclrtSynchronizeStream(main_stream));
    CALL(aclrtMemcpy(got.data(), got.size(), memory, got.size(), ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < got.size(); i++)
        EXPECT(got[i] == static_cast<char>('a' + i / part));
    for (size_t i = 0; i < workers.size(); i++) {
        CALL(aclrtDestroyEvent(done[i]));
        CALL(aclrtDestroyStream(workers[i]));
    }
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(begun));
    CALL(aclrtDestroyStream(main_stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("four parts");
}
