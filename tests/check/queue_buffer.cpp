// check: race
// check: options --check-host=seen
// A shared buffer belongs to one thread at a time: to the one that has taken it from the queue.
#include "check.h"

#include <acl/acl_tdt_queue.h>
#include <future>
#include <thread>

static void *data_of(acltdtBuf buffer)
{
    size_t size;
    void *data;

    CALL(acltdtGetBufData(buffer, &data, &size));
    return data;
}

int main()
{
    std::promise<void *> filled;
    std::promise<void> copied;
    acltdtBuf taken;
    char got[BYTES];
    uint32_t queue;

    start_device();
    CALL(acltdtCreateQueue(nullptr, &queue));
    std::thread producer([&] {
        char text[BYTES] = "from the producer";
        acltdtBuf buffer;

        CALL(aclrtSetDevice(0));
        CALL(acltdtAllocBuf(BYTES, ACL_TDT_NORMAL_MEM, &buffer));
        // check: written by
        CALL(aclrtMemcpy(data_of(buffer), BYTES, text, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
        if (WRONG) {
            filled.set_value(data_of(buffer));
            copied.get_future().wait();
        }
        CALL(acltdtEnqueue(queue, buffer, -1));
    });
    if (!WRONG)
        CALL(acltdtDequeue(queue, &taken, -1));
    void *data = WRONG ? filled.get_future().get() : data_of(taken);
    // check: read by
    CALL(aclrtMemcpy(got, BYTES, data, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing
    copied.set_value();
    if (WRONG)
        CALL(acltdtDequeue(queue, &taken, -1));
    producer.join();
    CALL(acltdtFreeBuf(taken));
    CALL(acltdtDestroyQueue(queue));
    end_device();
}
