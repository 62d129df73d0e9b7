/* The rarer ways to allocate and to free. */
#include "expect.h"

int main(void)
{
    void *exact, *cached, *host, *scheduler;
    char text[32] = "", back[32];

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMallocAlign32(&exact, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocCached(&cached, sizeof(text), ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtMallocForTaskScheduler(&scheduler, 64, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    CALL(aclrtMallocHost(&host, 4096));

    snprintf(text, sizeof(text), "through the cache");
    CALL(aclrtMemcpy(cached, sizeof(text), text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemFlush(cached, sizeof(text)));
    CALL(aclrtMemInvalidate(cached, sizeof(text)));
    CALL(aclrtMemcpy(back, sizeof(back), cached, sizeof(text), ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMemFlush(cached, 0));

    CALL(aclrtFreeWithDevSync(exact));
    CALL(aclrtFreeWithDevSync(cached));
    CALL(aclrtFreeHostWithDevSync(host));
    CALL(aclrtFree(scheduler));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemFlush(cached, sizeof(text)));
    CALL(aclrtResetDevice(0));
    puts(back);
    return aclFinalize();
}
