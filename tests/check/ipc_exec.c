/* check: race */
/* As ipc_sync.c, but the consumer is a program that was executed. */
#include "check.h"

#include <string.h>

static int consume(const char *key)
{
    void *memory;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *host = NEW_HOST(BYTES);

    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for an event that is recorded after the write */
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFreeHost(host));
    end_device();
    return 0;
}

int main(int argc, char **argv)
{
    char key[KEY];
    pid_t child;

    if (argc > 1)
        return consume(argv[1]);
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], key, NULL);
        _exit(127);
    }
    EXPECT(ended_well(child));
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    end_device();
}
