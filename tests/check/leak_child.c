/* check: leak */
/* Two processes: the child leaves the memory that it has imported. */
#include "check.h"

static void import_memory(int in, int out)
{
    char key[KEY];
    void *memory;

    start_device();
    TAKE(in, key);
    /* check: imported by */
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    if (!WRONG)
        CALL(aclrtIpcMemClose(key));
    GIVE(out, key);
    exit(0);
}

int main(void)
{
    int in, out;
    pid_t child = start_child(import_memory, &in, &out);
    char key[KEY];

    start_device();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    GIVE(out, key);
    TAKE(in, key);
    EXPECT(ended_well(child));
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    end_device();
}
