/* What registering refuses, and which units of a device reach registered memory. */
#include "expect.h"

int main(void)
{
    char *memory = aligned_alloc(4096, 8192);
    aclrtHostMemMapCapability reach;
    void *for_device, *own, *device;

    EXPECT(memory);
    CALL(aclInit(NULL));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL,
          aclrtHostRegister(memory, 8192, ACL_HOST_REGISTER_MAPPED, &for_device));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMallocHost(&own, 4096));
    CALL(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtHostRegisterV2(memory, 0, ACL_HOST_REG_PINNED));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtHostRegisterV2(memory, 8192, ACL_HOST_REG_READONLY));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtHostRegisterV2(memory, 8192, ACL_HOST_REG_IOMEMORY));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtHostRegisterV2(device, 4096, ACL_HOST_REG_PINNED));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtHostRegister(memory + 64, 4096, ACL_HOST_REGISTER_MAPPED, &for_device));
    CALL(aclrtHostRegisterV2(own, 4096, ACL_HOST_REG_PINNED));
    FAILS(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          aclrtHostRegisterV2(own, 4096, ACL_HOST_REG_PINNED));
    CALL(aclrtHostUnregister(own));

    CALL(aclrtHostRegisterV2(memory, 8192, ACL_HOST_REG_PINNED | ACL_HOST_REG_MAPPED));
    FAILS(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          aclrtHostRegisterV2(memory + 4096, 4096, ACL_HOST_REG_PINNED));
    FAILS(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(memory + 4096));
    CALL(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_SDMA, &reach));
    EXPECT(reach == ACL_RT_HOST_MEM_MAP_SUPPORTED);
    CALL(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_RDMA, &reach));
    EXPECT(reach == ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED);
    CALL(aclrtHostUnregister(memory));
    CALL(aclrtFree(device));
    CALL(aclrtFreeHost(own));
    CALL(aclrtResetDevice(0));
    free(memory);
    puts("registered once");
    return aclFinalize();
}
