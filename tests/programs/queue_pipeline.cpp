// Three threads and two queues: make, change, and check, one buffer after the other.
#include "expect.h"

#include <acl/acl_tdt_queue.h>

#include <thread>

constexpr int frames = 100;

static int *number_of(acltdtBuf buffer)
{
    void *data = nullptr;
    size_t size = 0;

    CALL(acltdtGetBufData(buffer, &data, &size));
    return static_cast<int *>(data);
}

int main()
{
    uint32_t made, changed;

    CALL(aclInit(nullptr));
    CALL(acltdtCreateQueue(nullptr, &made));
    CALL(acltdtCreateQueue(nullptr, &changed));
    std::thread maker([&] {
        for (int i = 0; i < frames; i++) {
            acltdtBuf buffer = nullptr;
            CALL(acltdtAllocBuf(1024, ACL_TDT_NORMAL_MEM, &buffer));
            *number_of(buffer) = i;
            CALL(acltdtEnqueue(made, buffer, -1));
        }
    });
    std::thread changer([&] {
        for (int i = 0; i < frames; i++) {
            acltdtBuf buffer = nullptr;
            CALL(acltdtDequeue(made, &buffer, -1));
            *number_of(buffer) *= 3;
            CALL(acltdtEnqueue(changed, buffer, -1));
        }
    });
    for (int i = 0; i < frames; i++) {
        acltdtBuf buffer = nullptr;
        CALL(acltdtDequeue(changed, &buffer, -1));
        EXPECT(*number_of(buffer) == 3 * i);
        CALL(acltdtFreeBuf(buffer));
    }
    maker.join();
    changer.join();
    CALL(acltdtDestroyQueue(made));
    CALL(acltdtDestroyQueue(changed));
    CALL(aclFinalize());
    printf("%d frames\n", frames);
}
