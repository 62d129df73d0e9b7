/* check: race */
/* Two processes: the producer is killed. What it has done before is looked at. */
#include "check.h"

#include <signal.h>

static void produce(int in, int out)
{
    char key[KEY];
    void *memory;

    start_device();
    TAKE(in, key);
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, NULL));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(NULL));
    GIVE(out, key);
    TAKE(in, key);
    CALL(aclrtSynchronizeStream(NULL));
    raise(SIGKILL);
}

int main(void)
{
    int in, out, status;
    pid_t child = start_child(produce, &in, &out);
    char key[KEY], got[BYTES];

    start_device();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    GIVE(out, key);
    TAKE(in, key);
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    GIVE(out, key);
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    end_device();
}
