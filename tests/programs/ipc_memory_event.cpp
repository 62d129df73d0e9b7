// Memory and an event of two processes: the consumer's stream waits until the data is there.
#include "expect.h"

#include <acl/acl_npud.h>

#include <algorithm>
#include <vector>

constexpr size_t count = 1 << 16, bytes = count * sizeof(int);

struct hand_over {
    char key[65];
    aclrtIpcEventHandle event;
};

static void produce(int in, int out)
{
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    void *memory = nullptr;
    hand_over message = {};
    char done;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtIpcMemGetExportKey(memory, bytes, message.key, sizeof(message.key),
                                 ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    CALL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CALL(aclrtIpcGetEventHandle(event, &message.event));
    CALL(aclnpudLaunchDelay(50000, ACL_SUCCESS, stream)); // the kernel that makes the data
    CALL(aclrtMemsetD32Async(memory, bytes, 7, count, stream));
    CALL(aclrtRecordEvent(event, stream));
    GIVE(out, message);
    TAKE(in, done);
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtIpcMemClose(message.key));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
}

int main()
{
    void *memory = nullptr, *host = nullptr;
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    int in = -1, out = -1;
    hand_over message = {};
    const pid_t child = start_child(produce, &in, &out);

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMallocHost(&host, bytes));
    TAKE(in, message);
    CALL(aclrtIpcMemImportByKey(&memory, message.key, 0));
    CALL(aclrtIpcOpenEventHandle(message.event, &event));
    CALL(aclrtStreamWaitEvent(stream, event));
    CALL(aclrtMemcpyAsync(host, bytes, memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    const int *numbers = static_cast<int *>(host);
    EXPECT(std::count(numbers, numbers + count, 7) == static_cast<long>(count));
    CALL(aclrtIpcMemClose(message.key));
    CALL(aclrtDestroyEvent(event));
    GIVE(out, message.key[0]);
    EXPECT(ended_well(child));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu numbers of the other process\n", count);
}
