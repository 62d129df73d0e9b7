/* check: empty-wait */
/* Two processes: the consumer's stream waits for an IPC event before the producer records it. */
#include "check.h"

static void produce(int in, int out)
{
    aclrtIpcEventHandle handle;
    char step;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_IPC);

    CALL(aclrtIpcGetEventHandle(event, &handle));
    if (!WRONG)
        CALL(aclrtRecordEvent(event, stream));
    GIVE(out, handle);
    TAKE(in, step);
    CALL(aclrtRecordEvent(event, stream));
    end_stream(stream);
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    aclrtIpcEventHandle handle;
    aclrtEvent event;

    start_device();
    aclrtStream stream = NEW_STREAM();

    TAKE(in, handle);
    CALL(aclrtIpcOpenEventHandle(handle, &event));
    CALL(aclrtStreamWaitEvent(stream, event)); /* check: waits in */
    GIVE(out, handle.reserved[0]);
    end_stream(stream);
    CALL(aclrtDestroyEvent(event));
    EXPECT(ended_well(child));
    end_device();
}
