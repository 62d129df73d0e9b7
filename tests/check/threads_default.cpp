// check: race
// What one thread has synchronised every thread knows; without a synchronise, none does.
#include "check.h"

#include <future>
#include <thread>

int main()
{
    std::promise<void> submitted;
    char got[BYTES];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    std::thread producer([&] {
        CALL(aclrtSetDevice(0));
        // check: written by
        CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
        if (!WRONG)
            CALL(aclrtSynchronizeStream(stream));
        submitted.set_value();
    });
    submitted.get_future().wait();
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing must synchronise
    producer.join();
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
