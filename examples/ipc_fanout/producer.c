/*
 * One producer, several consumers: its stream works and records an event; the streams of all
 * consumers go on from there, each on its own device; the producer's stream goes on when every
 * consumer's stream is done. No process waits in between: all of it is submitted while the first
 * work is still running.
 * usage: producer DIR CONSUMERS
 */
#include <time.h>

#include "../common/example.h"
#include "acl/acl_npud.h"

#define WORK_MS       50
#define CONSUMERS_MAX 64

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static aclrtEvent work_record(aclrtStream stream)
{
    aclrtEvent event;

    CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK(aclnpudLaunchDelay(WORK_MS * 1000, ACL_SUCCESS, stream));
    CHECK(aclrtRecordEvent(event, stream));
    say("%d ms of work submitted, and its record", WORK_MS);
    return event;
}

/* The handle is handed out after the record: a consumer's wait then captures just that record. */
static void event_export(aclrtEvent event, const char *dir, int consumers)
{
    aclrtIpcEventHandle handle;

    CHECK(aclrtIpcGetEventHandle(event, &handle));
    handle_write(dir, "handle", 0, &handle);
    for (int i = 1; i <= consumers; i++)
        signal_send(dir, "exported", i);
}

static void wait_for_consumers(aclrtEvent *done, int consumers, const char *dir, aclrtStream stream)
{
    for (int i = 0; i < consumers; i++) {
        signal_wait(dir, "recorded", i + 1);
        CHECK(aclrtIpcOpenEventHandle(handle_read(dir, "done", i + 1), &done[i]));
        CHECK(aclrtStreamWaitEvent(stream, done[i]));
    }
    say("stream waits for %d consumers", consumers);
    CHECK(aclrtSynchronizeStream(stream));
}

static int consumers_parse(const char *text)
{
    int n = atoi(text);

    if (n < 1 || n > CONSUMERS_MAX)
        fail("%s: not a number of consumers (1 to %d)", text, CONSUMERS_MAX);
    return n;
}

int main(int argc, char **argv)
{
    aclrtEvent event, done[CONSUMERS_MAX];
    aclrtStream stream;
    double start;
    int n;

    set_name("producer");
    if (argc != 3)
        fail("usage: producer DIR CONSUMERS");
    n = consumers_parse(argv[2]);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    say("using device 0");

    start = now_ms();
    event = work_record(stream);
    event_export(event, argv[1], n);
    wait_for_consumers(done, n, argv[1], stream);
    if (now_ms() - start < WORK_MS)
        fail("done before the work can have been");
    say("all done after %.0f ms", now_ms() - start);
    for (int i = 0; i < n; i++) {
        if (event_status(done[i]) != ACL_EVENT_RECORDED_STATUS_COMPLETE)
            fail("consumer %d is not done", i + 1);
        CHECK(aclrtDestroyEvent(done[i]));
        signal_send(argv[1], "finished", i + 1);
    }
    expect_complete(event, "own record");

    CHECK(aclrtDestroyEvent(event));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    say("cleaned up");
    return 0;
}
