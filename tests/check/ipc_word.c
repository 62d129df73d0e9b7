/* check: race */
/* Two processes and a word in their memory, which the producer's stream writes before the data. */
#include "check.h"

static void produce(int in, int out)
{
    char key[KEY], *memory;

    start_device();
    aclrtStream stream = NEW_STREAM();

    TAKE(in, key);
    CALL(aclrtIpcMemImportByKey((void **)&memory, key, 0));
    if (WRONG)
        CALL(aclrtValueWrite(memory, 1, 0, stream));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory + 64, BYTES - 64, 1, BYTES - 64, stream));
    if (!WRONG)
        CALL(aclrtValueWrite(memory, 1, 0, stream));
    GIVE(out, key);
    TAKE(in, key);
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    char key[KEY];

    start_device();
    aclrtStream stream = NEW_STREAM();
    char *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    GIVE(out, key);
    TAKE(in, key);
    CALL(aclrtValueWait(memory, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, 64, memory + 64, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for */
    CALL(aclrtSynchronizeStream(stream));
    GIVE(out, key);
    EXPECT(ended_well(child));
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
