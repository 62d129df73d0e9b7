/* Memory of the only device that a process sees is memory of device 1 for others. */
#include "expect.h"

static uint64_t used_on(int32_t device)
{
    aclrtMemUsageInfo entries[4];
    uint64_t used = 0;
    size_t n;

    CALL(aclrtGetMemUsageInfo(device, entries, 4, &n));
    for (size_t i = 0; i < n; i++)
        used += entries[i].curMemSize;
    return used;
}

static void allocate_on_its_own(int in, int out)
{
    void *memory;
    char done = 0;

    /* As a launcher of jobs does. Numbers that do not rise are refused. */
    setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, 32 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    GIVE(out, done);
    TAKE(in, done);
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    char done = 0;
    int in, out;
    pid_t child = start_child(allocate_on_its_own, &in, &out);

    TAKE(in, done);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    EXPECT(used_on(0) < 32 << 20 && used_on(1) >= 32 << 20);
    GIVE(out, done);
    EXPECT(ended_well(child));
    EXPECT(used_on(1) < 32 << 20);
    CALL(aclrtResetDevice(0));
    puts("32 MiB on device 1");
    return aclFinalize();
}
