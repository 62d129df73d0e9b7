// check: race
// check: options --check-host=seen
// One thread synchronises and tells the other one by a mutex, which npud does not see.
#include "check.h"

#include <mutex>
#include <thread>

int main()
{
    std::mutex mutex;
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_BLANK(BYTES);

    std::thread producer([&] {
        std::lock_guard<std::mutex> held(mutex);
        CALL(aclrtSetDevice(0));
        // check: written by
        CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
        CALL(aclrtSynchronizeStream(stream));
    });
    producer.join();
    std::unique_lock<std::mutex> held(mutex);
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
