/* A stream that waits for a word in memory, which another stream writes. */
#include "expect.h"

#include <acl/acl_npud.h>

int main(void)
{
    const uint32_t conditions[] = {ACL_STREAM_WAIT_VALUE_GEQ, ACL_STREAM_WAIT_VALUE_EQ,
                                   ACL_STREAM_WAIT_VALUE_AND};
    aclrtStream writer, waiter;
    aclrtStreamStatus status;
    uint64_t got;
    void *word;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&writer));
    CALL(aclrtCreateStream(&waiter));
    CALL(aclrtMalloc(&word, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 3; i++) {
        CALL(aclrtMemset(word, 8, 0, 8));
        CALL(aclrtValueWait(word, 4, conditions[i], waiter));
        CALL(aclrtStreamQuery(waiter, &status));
        EXPECT(status == ACL_STREAM_STATUS_NOT_READY);
        CALL(aclrtValueWrite(word, 4, 0, writer));
        CALL(aclrtSynchronizeStream(waiter));
    }
    CALL(aclrtMemcpy(&got, 8, word, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(got == 4);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(word, 4, 4, waiter));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite((char *)word + 4, 4, 0, writer));
    CALL(aclrtSynchronizeStream(writer));
    CALL(aclrtFree(word));
    CALL(aclrtDestroyStream(writer));
    CALL(aclrtDestroyStream(waiter));
    CALL(aclrtResetDevice(0));
    puts("three conditions");
    return aclFinalize();
}
