/* check: race */
/* The exporter frees the memory while a stream of the importer uses it. */
#include "check.h"

static void use_memory(int in, int out)
{
    char key[KEY];
    void *memory;

    start_device();
    aclrtStream stream = NEW_STREAM();

    TAKE(in, key);
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    GIVE(out, key[0]);
    TAKE(in, key[0]);
    (void)aclrtSynchronizeStream(stream); /* it may have failed */
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(use_memory, &in, &out);
    char key[KEY], used;

    start_device();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    GIVE(out, key);
    TAKE(in, used);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory)); /* check: freed by */
    /* check: missing must synchronise */
    GIVE(out, used);
    EXPECT(ended_well(child));
    end_device();
}
