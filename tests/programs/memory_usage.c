/* How much of a device this program uses, and how much other programs. */
#include "expect.h"

#include <string.h>

static uint64_t usage_of(const char *name)
{
    aclrtMemUsageInfo entries[8];
    size_t n = 0;

    CALL(aclrtGetMemUsageInfo(0, entries, 8, &n));
    for (size_t i = 0; i < n; i++)
        if (strcmp(entries[i].name, name) == 0) {
            EXPECT(entries[i].memPeakSize >= entries[i].curMemSize);
            return entries[i].curMemSize;
        }
    return 0;
}

static void allocate_beside(int in, int out)
{
    void *memory;
    char done;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    GIVE(out, done);
    TAKE(in, done);
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    char done = 0;
    int in, out;
    void *memory;
    pid_t child = start_child(allocate_beside, &in, &out);

    TAKE(in, done);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    EXPECT(usage_of("OTHERS") >= 8 << 20);
    CALL(aclrtMalloc(&memory, 16 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    EXPECT(usage_of("APP") >= 16 << 20);
    CALL(aclrtFree(memory));
    EXPECT(usage_of("APP") < 16 << 20);
    GIVE(out, done);
    EXPECT(ended_well(child));
    CALL(aclrtResetDevice(0));
    puts("16 MiB here, 8 MiB there");
    return aclFinalize();
}
