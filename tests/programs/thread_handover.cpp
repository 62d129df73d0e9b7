// One thread makes objects, another uses and destroys them: handles belong to the process.
#include "expect.h"

#include <future>

int main()
{
    aclrtContext context = nullptr;
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    void *memory = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtCreateContext(&context, 0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEvent(&event));
    CALL(aclrtMalloc(&memory, 1024, ACL_MEM_MALLOC_HUGE_FIRST));
    const char last = std::async(std::launch::async, [&] {
                          char got[1024];
                          CALL(aclrtSetCurrentContext(context));
                          CALL(aclrtMemsetAsync(memory, 1024, 'z', 1024, stream));
                          CALL(aclrtRecordEvent(event, stream));
                          CALL(aclrtSynchronizeEvent(event));
                          CALL(aclrtMemcpy(got, 1024, memory, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
                          CALL(aclrtFree(memory));
                          CALL(aclrtDestroyEvent(event));
                          CALL(aclrtDestroyStream(stream));
                          return got[1023];
                      }).get();
    EXPECT(last == 'z');
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyContext(context));
    CALL(aclFinalize());
    puts("used and destroyed by another thread");
}
