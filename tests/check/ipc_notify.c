/* check: race */
/* A notify of another process, recorded before the write. */
#include "check.h"

struct offer {
    char memory[KEY], notify[KEY];
};

static void produce(int in, int out)
{
    struct offer offer;
    aclrtNotify notify;
    void *memory;

    start_device();
    aclrtStream stream = NEW_STREAM();

    TAKE(in, offer);
    CALL(aclrtIpcMemImportByKey(&memory, offer.memory, 0));
    CALL(aclrtNotifyImportByKey(&notify, offer.notify, ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
    if (WRONG)
        CALL(aclrtRecordNotify(notify, stream));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtRecordNotify(notify, stream));
    GIVE(out, offer);
    TAKE(in, offer);
    end_stream(stream);
    CALL(aclrtDestroyNotify(notify));
    CALL(aclrtIpcMemClose(offer.memory));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    struct offer offer;

    start_device();
    aclrtStream stream = NEW_STREAM();
    aclrtNotify notify = NEW_NOTIFY();
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, offer.memory, KEY, 1));
    CALL(aclrtNotifyGetExportKey(notify, offer.notify, KEY,
                                 ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    GIVE(out, offer);
    TAKE(in, offer);
    CALL(aclrtWaitAndResetNotify(notify, stream, 0));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for */
    CALL(aclrtSynchronizeStream(stream));
    GIVE(out, offer);
    EXPECT(ended_well(child));
    end_stream(stream);
    CALL(aclrtIpcMemClose(offer.memory));
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyNotify(notify));
    end_device();
}
