/* An importer keeps the memory after the process that exported it has ended. */
#include "expect.h"

#include <string.h>

static void export_and_exit(int in, int out)
{
    const char text[] = "left behind";
    char key[65], done;
    void *memory;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(memory, 4096, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtIpcMemGetExportKey(memory, 4096, key, sizeof(key),
                                 ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    GIVE(out, key);
    TAKE(in, done); /* the other one has imported */
    _exit(0);       /* without a word to the library */
}

int main(void)
{
    char key[65], got[32], done = 0;
    void *memory, *again;
    int in, out;
    pid_t child = start_child(export_and_exit, &in, &out);

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    TAKE(in, key);
    CALL(aclrtIpcMemImportByKey(&memory, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    GIVE(out, done);
    EXPECT(ended_well(child));
    CALL(aclrtMemcpy(got, sizeof(got), memory, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, "left behind") == 0);
    CALL(aclrtMemset(memory, 4096, 0, 4096));
    CALL(aclrtIpcMemClose(key));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtIpcMemClose(key));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
          aclrtIpcMemImportByKey(&again, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    CALL(aclrtResetDevice(0));
    puts(got);
    return aclFinalize();
}
