// check: race
// check: options --check-host=seen
// A route passes the order on from one queue to the other; a pipe of the program does not.
#include "check.h"

#include <acl/acl_tdt_queue.h>
#include <thread>

int main()
{
    uint32_t from, to;
    char got[BYTES];
    void *memory;
    int ends[2];
    size_t size;

    EXPECT(pipe(ends) == 0);
    start_device();
    aclrtStream stream = NEW_STREAM();

    CALL(acltdtCreateQueue(nullptr, &from));
    CALL(acltdtCreateQueue(nullptr, &to));
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route = acltdtCreateQueueRoute(from, to);
    CALL(acltdtAddQueueRoute(list, route));
    CALL(acltdtBindQueueRoutes(list));
    std::thread producer([&] {
        CALL(aclrtSetDevice(0));
        void *mine = NEW_BLANK(BYTES);
        // check: written by
        CALL(aclrtMemsetAsync(mine, BYTES, 1, BYTES, stream));
        CALL(aclrtSynchronizeStream(stream));
        if (WRONG)
            GIVE(ends[1], mine);
        else
            CALL(acltdtEnqueueData(from, &mine, sizeof(mine), nullptr, 0, -1, 0));
    });
    if (WRONG)
        TAKE(ends[0], memory);
    else
        CALL(acltdtDequeueData(to, &memory, sizeof(memory), &size, nullptr, 0, -1));
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing
    producer.join();
    end_stream(stream);
    CALL(aclrtFree(memory));
    CALL(acltdtUnbindQueueRoutes(list));
    CALL(acltdtDestroyQueueRoute(route));
    CALL(acltdtDestroyQueueRouteList(list));
    CALL(acltdtDestroyQueue(from));
    CALL(acltdtDestroyQueue(to));
    end_device();
}
