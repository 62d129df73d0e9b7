/* A notify of one process that another records, by its key and the list of importers. */
#include "expect.h"

static void record_in_child(int in, int out)
{
    aclrtNotify notify;
    aclrtStream stream;
    char key[65];
    int32_t pid;

    CALL(aclInit(NULL));
    CALL(aclrtDeviceGetBareTgid(&pid));
    GIVE(out, pid);
    TAKE(in, key);
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtNotifyImportByKey(&notify, key, ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
    CALL(aclrtRecordNotify(notify, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyNotify(notify));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    exit(aclFinalize());
}

int main(void)
{
    int there[2], back[2];
    aclrtNotify notify;
    aclrtStream stream;
    char key[65];
    int32_t pid;
    pid_t child;

    EXPECT(pipe(there) == 0 && pipe(back) == 0);
    child = fork();
    if (child == 0)
        record_in_child(there[0], back[1]);
    close(back[1]);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    CALL(aclrtNotifyGetExportKey(notify, key, sizeof(key), ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT));
    TAKE(back[0], pid);
    CALL(aclrtNotifySetImportPid(notify, &pid, 1));
    CALL(aclrtWaitAndResetNotify(notify, stream, 0));
    GIVE(there[1], key);
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(ended_well(child));
    CALL(aclrtDestroyNotify(notify));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("process %d recorded it\n", pid);
    return aclFinalize();
}
