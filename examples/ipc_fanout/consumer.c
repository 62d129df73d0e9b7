/*
 * One of several consumers: its stream waits for the producer's record, works, and records an event
 * of its own, for which the producer's stream waits.
 * usage: consumer DIR NUMBER     (NUMBER from 1)
 */
#include "../common/example.h"
#include "acl/acl_npud.h"

#define WORK_MS 20

/* Any but the producer's device 0, as far as there are others. */
static int32_t device_choose(int number)
{
    uint32_t count;

    CHECK(aclrtGetDeviceCount(&count));
    return count < 2 ? 0 : 1 + (number - 1) % ((int32_t)count - 1);
}

/* Submits everything at once: the stream keeps the order, this process waits for nothing. */
static aclrtEvent work_record(aclrtEvent produced, aclrtStream stream)
{
    aclrtEvent done;

    CHECK(aclrtCreateEventExWithFlag(&done, ACL_EVENT_IPC));
    CHECK(aclrtStreamWaitEvent(stream, produced));
    CHECK(aclnpudLaunchDelay(WORK_MS * 1000, ACL_SUCCESS, stream));
    CHECK(aclrtRecordEvent(done, stream));
    say("submitted: wait for the producer, %d ms of work, record", WORK_MS);
    return done;
}

static void event_export(aclrtEvent done, const char *dir, int number)
{
    aclrtIpcEventHandle handle;

    CHECK(aclrtIpcGetEventHandle(done, &handle));
    handle_write(dir, "done", number, &handle);
    signal_send(dir, "recorded", number);
}

static void run(const char *dir, int number, aclrtStream stream)
{
    aclrtEvent produced, done;

    signal_wait(dir, "exported", number);
    CHECK(aclrtIpcOpenEventHandle(handle_read(dir, "handle", 0), &produced));
    done = work_record(produced, stream);
    event_export(done, dir, number);
    CHECK(aclrtSynchronizeStream(stream));
    if (event_status(produced) != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        fail("my stream did not wait for the producer");
    expect_complete(done, "work done");
    signal_wait(dir, "finished", number);
    CHECK(aclrtDestroyEvent(done));
    CHECK(aclrtDestroyEvent(produced));
}

int main(int argc, char **argv)
{
    int number = argc == 3 ? atoi(argv[2]) : 0;
    aclrtStream stream;
    int32_t device;

    set_name("consumer %d", number);
    if (number < 1)
        fail("usage: consumer DIR NUMBER");
    CHECK(aclInit(NULL));
    device = device_choose(number);
    CHECK(aclrtSetDevice(device));
    CHECK(aclrtCreateStream(&stream));
    say("using device %d", device);

    run(argv[1], number, stream);

    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(device));
    CHECK(aclFinalize());
    say("cleaned up");
    return 0;
}
