/* check: race */
/* Two processes: the producer writes again before the consumer's stream has read. */
#include "check.h"

struct offer {
    char key[KEY];
    aclrtIpcEventHandle event;
};

static void produce(int in, int out)
{
    struct offer offer;
    char step;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent through = NEW_EVENT(ACL_EVENT_IPC);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, offer.key, KEY, 1));
    CALL(aclrtIpcGetEventHandle(through, &offer.event));
    GIVE(out, offer);
    TAKE(in, step); /* the consumer has submitted, and recorded */
    if (!WRONG)
        CALL(aclrtStreamWaitEvent(stream, through));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    /* check: missing must wait for an event that is recorded after the read */
    GIVE(out, step);
    TAKE(in, step);
    end_stream(stream);
    CALL(aclrtIpcMemClose(offer.key));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyEvent(through));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    struct offer offer;
    char step = 0;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtEvent through;
    void *memory, *host = NEW_HOST(BYTES);

    TAKE(in, offer);
    CALL(aclrtIpcMemImportByKey(&memory, offer.key, 0));
    CALL(aclrtIpcOpenEventHandle(offer.event, &through));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtRecordEvent(through, stream));
    GIVE(out, step);
    TAKE(in, step);
    end_stream(stream);
    CALL(aclrtDestroyEvent(through));
    CALL(aclrtIpcMemClose(offer.key));
    GIVE(out, step);
    EXPECT(ended_well(child));
    CALL(aclrtFreeHost(host));
    end_device();
}
