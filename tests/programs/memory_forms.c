/* The ways to allocate, and what is refused. */
#include "expect.h"

int main(void)
{
    const aclrtMemMallocPolicy policies[] = {
        ACL_MEM_MALLOC_HUGE_FIRST,     ACL_MEM_MALLOC_HUGE_ONLY,     ACL_MEM_MALLOC_NORMAL_ONLY,
        ACL_MEM_MALLOC_HUGE_FIRST_P2P, ACL_MEM_MALLOC_HUGE_ONLY_P2P, ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
    };
    void *memory;

    CALL(aclInit(NULL));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        CALL(aclrtMalloc(&memory, 1000, policies[i]));
        EXPECT((uintptr_t)memory % 64 == 0);
        CALL(aclrtFree(memory));
    }
    CALL(aclrtMallocAlign32(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtFree(memory));
    CALL(aclrtMallocCached(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtFree(memory));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(memory));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtFree(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMalloc(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION,
          aclrtMalloc(&memory, (size_t)1 << 46, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtResetDevice(0));
    puts("eight forms, five refusals");
    return aclFinalize();
}
