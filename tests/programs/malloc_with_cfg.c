/* Allocations that say for which module and on which device they are. */
#include "expect.h"

int main(void)
{
    aclrtMallocAttribute attributes[2] = {
        {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 3}},
        {ACL_RT_MEM_ATTR_DEVICE_ID, {.deviceId = 0}},
    };
    aclrtMallocConfig config = {attributes, 2};
    void *memory, *host;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMallocWithCfg(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    CALL(aclrtFree(memory));
    CALL(aclrtMallocWithCfg(
        &memory, 4096,
        (aclrtMemMallocPolicy)(ACL_MEM_MALLOC_HUGE_FIRST | ACL_MEM_TYPE_HIGH_BAND_WIDTH), NULL));
    CALL(aclrtFree(memory));

    attributes[1].value.deviceId = 1; /* not the current one */
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMallocWithCfg(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    config.attrs = NULL;
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtMallocWithCfg(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST, &config));

    attributes[0] = (aclrtMallocAttribute){ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 1}};
    config = (aclrtMallocConfig){attributes, 1};
    CALL(aclrtMallocHostWithCfg(&host, 4096, &config));
    CALL(aclrtFreeHost(host));
    CALL(aclrtResetDevice(0));
    puts("with and without attributes");
    return aclFinalize();
}
