// check: race
// As threads_mutex.cpp without the strict variant: the mutex is enough, no synchronise is not.
#include "check.h"

#include <mutex>
#include <thread>

int main()
{
    std::mutex mutex;

    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    std::thread producer([&] {
        std::lock_guard<std::mutex> held(mutex);
        CALL(aclrtSetDevice(0));
        // check: written by
        CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
        CALL(aclrtSynchronizeStream(WRONG ? other : stream));
    });
    producer.join();
    std::unique_lock<std::mutex> held(mutex);
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 2, BYTES, other));
    // check: missing must wait for an event that is recorded after the write
    end_streams(stream, other);
    CALL(aclrtFree(memory));
    end_device();
}
