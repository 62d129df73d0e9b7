/* Device memory of one process, which another writes: its key by a pipe, its pid on the list. */
#include "expect.h"

#include <string.h>

enum { BYTES = 1 << 20, KEY = 65 };

static void write_there(int in, int out)
{
    const char text[] = "from the other process";
    void *memory;
    char key[KEY];
    int32_t pid;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtDeviceGetBareTgid(&pid));
    GIVE(out, pid);
    TAKE(in, key);
    CALL(aclrtIpcMemImportByKey(&memory, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    CALL(aclrtMemcpy(memory, BYTES, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(memory)); /* it belongs to the exporter */
    CALL(aclrtIpcMemClose(key));
    GIVE(out, pid);
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    char key[KEY], got[64];
    int in, out;
    void *memory;
    int32_t pid;
    pid_t child = start_child(write_there, &in, &out);

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, sizeof(key),
                                 ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
    TAKE(in, pid);
    CALL(aclrtIpcMemSetImportPid(key, &pid, 1));
    GIVE(out, key);
    TAKE(in, pid); /* it has written */
    CALL(aclrtMemcpy(got, sizeof(got), memory, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, "from the other process") == 0);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    EXPECT(ended_well(child));
    CALL(aclrtResetDevice(0));
    puts(got);
    return aclFinalize();
}
