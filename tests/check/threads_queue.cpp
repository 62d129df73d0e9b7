// check: race
// check: options --check-host=seen
// A queue of npud is an order between threads, and a promise of the program is none that is seen.
#include "check.h"

#include <acl/acl_tdt_queue.h>
#include <future>
#include <thread>

int main()
{
    std::promise<void *> promise;
    char got[BYTES];
    void *memory;
    uint32_t queue;
    size_t size;

    start_device();
    aclrtStream stream = NEW_STREAM();

    CALL(acltdtCreateQueue(nullptr, &queue));
    std::thread producer([&] {
        CALL(aclrtSetDevice(0));
        void *mine = NEW_BLANK(BYTES);
        // check: written by
        CALL(aclrtMemsetAsync(mine, BYTES, 1, BYTES, stream));
        CALL(aclrtSynchronizeStream(stream));
        if (WRONG)
            promise.set_value(mine);
        else
            CALL(acltdtEnqueueData(queue, &mine, sizeof(mine), nullptr, 0, -1, 0));
    });
    if (WRONG)
        memory = promise.get_future().get();
    else
        CALL(acltdtDequeueData(queue, &memory, sizeof(memory), &size, nullptr, 0, -1));
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing
    producer.join();
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(acltdtDestroyQueue(queue));
    end_device();
}
