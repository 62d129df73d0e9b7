/*
 * Process B: opens the event of process A, works after A's record, and records the event back.
 * usage: consumer DIR
 */
#include "../common/example.h"

#define SIZE (1 << 20)

static int32_t device_choose(void)
{
    uint32_t count;

    CHECK(aclrtGetDeviceCount(&count));
    return (int32_t)count - 1; /* another one than the producer's, if there is more than one */
}

/* To the device and back, in the order of the stream. */
static void work(aclrtStream stream)
{
    void *in, *out, *device;

    CHECK(aclrtMallocHost(&in, SIZE));
    CHECK(aclrtMallocHost(&out, SIZE));
    CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    memset(in, 'b', SIZE);
    CHECK(aclrtMemcpyAsync(device, SIZE, in, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK(aclrtMemcpyAsync(out, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
    if (memcmp(in, out, SIZE) != 0)
        fail("what came back from the device is not what was sent");
    say("work done: %d bytes to the device and back", SIZE);
    CHECK(aclrtFree(device));
    CHECK(aclrtFreeHost(out));
    CHECK(aclrtFreeHost(in));
}

static aclrtEvent event_open(const char *dir)
{
    aclrtEvent event;

    CHECK(aclrtIpcOpenEventHandle(handle_read(dir, "handle", 0), &event));
    say("event opened");
    return event;
}

int main(int argc, char **argv)
{
    aclrtStream stream;
    aclrtEvent event;
    int32_t device;

    set_name("consumer");
    if (argc != 2)
        fail("usage: consumer DIR");
    CHECK(aclInit(NULL));
    device = device_choose();
    CHECK(aclrtSetDevice(device));
    CHECK(aclrtCreateStream(&stream));
    say("using device %d", device);

    signal_wait(argv[1], "exported", 0);
    event = event_open(argv[1]);
    CHECK(aclrtStreamWaitEvent(stream, event));
    CHECK(aclrtSynchronizeStream(stream));
    say("stream has waited for the producer's record");
    work(stream);

    CHECK(aclrtRecordEvent(event, stream));
    CHECK(aclrtSynchronizeEvent(event));
    expect_complete(event, "event recorded back and synchronised");

    CHECK(aclrtDestroyEvent(event));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(device));
    CHECK(aclFinalize());
    say("cleaned up");
    signal_send(argv[1], "done", 0);
    return 0;
}
