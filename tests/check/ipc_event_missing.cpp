// check: race
// Two processes: the consumer has the event, and its stream does not wait for it.
#include "check.h"

struct offer {
    char key[KEY];
    aclrtIpcEventHandle event;
};

static void produce(int in, int out)
{
    offer mine;
    char through;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_IPC);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, mine.key, KEY, 1));
    CALL(aclrtIpcGetEventHandle(event, &mine.event));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtRecordEvent(event, stream));
    GIVE(out, mine);
    TAKE(in, through);
    end_stream(stream);
    CALL(aclrtIpcMemClose(mine.key));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtResetDevice(0));
}

int main()
{
    int in, out;
    const pid_t child = start_child(produce, &in, &out);
    offer taken;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event;
    void *memory, *host = NEW_HOST(BYTES);

    TAKE(in, taken);
    CALL(aclrtIpcMemImportByKey(&memory, taken.key, 0));
    CALL(aclrtIpcOpenEventHandle(taken.event, &event));
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(stream, event));
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    // check: missing must wait for an event that is recorded after the write
    end_stream(stream);
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtIpcMemClose(taken.key));
    GIVE(out, taken.key[0]);
    EXPECT(ended_well(child));
    CALL(aclrtFreeHost(host));
    end_device();
}
