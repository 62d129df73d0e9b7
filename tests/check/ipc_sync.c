/* check: race */
/* Two processes and no event: what one has synchronised the other one knows, but not before. */
#include "check.h"

static void produce(int in, int out)
{
    char key[KEY];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    GIVE(out, key);
    TAKE(in, key);
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(produce, &in, &out);
    char key[KEY], got[BYTES];
    void *memory;

    start_device();
    TAKE(in, key);
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    CALL(aclrtIpcMemClose(key));
    GIVE(out, key);
    EXPECT(ended_well(child));
    end_device();
}
