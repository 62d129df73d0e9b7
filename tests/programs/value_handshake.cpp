// Two streams that hand work to each other by two counters in memory.
#include "expect.h"

int main()
{
    constexpr uint64_t rounds = 100;
    aclrtStream left = nullptr, right = nullptr;
    void *words = nullptr;
    uint64_t got[2];

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&left));
    CALL(aclrtCreateStream(&right));
    CALL(aclrtMalloc(&words, sizeof(got), ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtMemset(words, sizeof(got), 0, sizeof(got)));
    uint64_t *to_right = static_cast<uint64_t *>(words), *to_left = to_right + 1;
    for (uint64_t i = 1; i <= rounds; i++) {
        CALL(aclrtValueWrite(to_right, i, 0, left));
        CALL(aclrtValueWait(to_left, i, ACL_STREAM_WAIT_VALUE_EQ, left));
        CALL(aclrtValueWait(to_right, i, ACL_STREAM_WAIT_VALUE_GEQ, right));
        CALL(aclrtValueWrite(to_left, i, 0, right));
    }
    CALL(aclrtSynchronizeDevice());
    CALL(aclrtMemcpy(got, sizeof(got), words, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(got[0] == rounds && got[1] == rounds);
    CALL(aclrtFree(words));
    CALL(aclrtDestroyStream(left));
    CALL(aclrtDestroyStream(right));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%lu hand-overs\n", static_cast<unsigned long>(2 * rounds));
}
