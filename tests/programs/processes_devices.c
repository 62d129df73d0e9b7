/* A worker process per device; the parent collects what they say. */
#include "expect.h"

static void work(int32_t device, int out)
{
    uint32_t answer = 0;
    void *memory;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(device));
    CALL(aclrtMalloc(&memory, sizeof(answer), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(memory, sizeof(answer), device + 1, sizeof(answer)));
    CALL(aclrtMemcpy(&answer, sizeof(answer), memory, sizeof(answer), ACL_MEMCPY_DEVICE_TO_HOST));
    GIVE(out, answer);
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(device));
    exit(aclFinalize());
}

int main(void)
{
    uint32_t answer, sum = 0;
    pid_t children[2];
    int ends[2];

    EXPECT(pipe(ends) == 0);
    for (int32_t i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0)
            work(i, ends[1]);
    }
    close(ends[1]);
    for (int i = 0; i < 2; i++) {
        TAKE(ends[0], answer);
        sum += answer;
    }
    for (int i = 0; i < 2; i++)
        EXPECT(ended_well(children[i]));
    EXPECT(sum == 0x03030303);
    printf("%#x\n", sum);
    return 0;
}
