/*
 * Process A: makes an IPC event, hands it to process B, and gets it back recorded by B.
 * usage: producer DIR
 */
#include "../common/example.h"

static aclrtEvent event_make(aclrtStream stream)
{
    aclrtEvent event;

    CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK(aclrtRecordEvent(event, stream));
    CHECK(aclrtSynchronizeEvent(event));
    expect_complete(event, "event recorded and synchronised");
    return event;
}

static void event_export(aclrtEvent event, const char *dir)
{
    aclrtIpcEventHandle handle;

    CHECK(aclrtIpcGetEventHandle(event, &handle));
    handle_write(dir, "handle", 0, &handle);
    say("handle exported to %s/handle.0", dir);
}

int main(int argc, char **argv)
{
    aclrtStream stream;
    aclrtEvent event;

    set_name("producer");
    if (argc != 2)
        fail("usage: producer DIR");
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    say("using device 0");

    event = event_make(stream);
    event_export(event, argv[1]);
    signal_send(argv[1], "exported", 0);
    say("waiting for the consumer");
    signal_wait(argv[1], "done", 0);
    expect_complete(event, "the consumer has recorded the event");

    CHECK(aclrtDestroyEvent(event));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    say("cleaned up");
    return 0;
}
