/* check: race */
/* Two processes: the producer records the event before the write that it stands for. */
#include "check.h"

struct offer {
    char key[KEY];
    aclrtIpcEventHandle event;
};

static void produce(int in, int out)
{
    struct offer offer;
    char through;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event = NEW_EVENT(ACL_EVENT_IPC);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, offer.key, KEY, 1));
    CALL(aclrtIpcGetEventHandle(event, &offer.event));
    if (WRONG)
        CALL(aclrtRecordEvent(event, stream)); /* check: missing names */
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtRecordEvent(event, stream));
    GIVE(out, offer);
    TAKE(in, through);
    end_stream(stream);
    CALL(aclrtIpcMemClose(offer.key));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    struct offer offer;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent event;
    void *memory, *host = NEW_HOST(BYTES);

    TAKE(in, offer);
    CALL(aclrtIpcMemImportByKey(&memory, offer.key, 0));
    CALL(aclrtIpcOpenEventHandle(offer.event, &event));
    CALL(aclrtStreamWaitEvent(stream, event)); /* check: missing names */
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for an event that is recorded after the write */
    end_stream(stream);
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtIpcMemClose(offer.key));
    GIVE(out, offer.key[0]);
    EXPECT(ended_well(child));
    CALL(aclrtFreeHost(host));
    end_device();
}
