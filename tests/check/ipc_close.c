/* check: race */
/* The importer closes the memory while a task of its stream uses it. */
#include "check.h"

static void export_memory(int in, int out)
{
    char key[KEY], closed;

    start_device();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    GIVE(out, key);
    TAKE(in, closed);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(export_memory, &in, &out);
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
    CALL(aclrtIpcMemClose(key)); /* check: closed by */
    /* check: missing must synchronise */
    (void)aclrtSynchronizeStream(stream);
    CALL(aclrtDestroyStream(stream));
    GIVE(out, key[0]);
    EXPECT(ended_well(child));
    end_device();
}
