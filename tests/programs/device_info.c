/* What a program asks of each device before it chooses one. */
#include "expect.h"

static int64_t number(uint32_t device, aclrtDevAttr attribute)
{
    int64_t value = -1;

    CALL(aclrtGetDeviceInfo(device, attribute, &value));
    return value;
}

int main(void)
{
    aclrtDeviceStatus status;
    size_t free, total;
    uint32_t count;
    int64_t value;

    CALL(aclInit(NULL));
    CALL(aclrtGetDeviceCount(&count));
    EXPECT(count >= 2);
    for (uint32_t device = 0; device < count; device++) {
        CALL(aclrtQueryDeviceStatus((int32_t)device, &status));
        EXPECT(status == ACL_RT_DEVICE_STATUS_NORMAL);
        EXPECT(number(device, ACL_DEV_ATTR_CUBE_CORE_NUM) > 0);
        EXPECT(number(device, ACL_DEV_ATTR_VECTOR_CORE_NUM) > 0);
        EXPECT(number(device, ACL_DEV_ATTR_L2_CACHE_SIZE) > 1 << 20);
        EXPECT(number(device, ACL_DEV_ATTR_IS_VIRTUAL) >= 0);
        EXPECT(number(device, ACL_DEV_ATTR_NPU_ARCH) > 1000);
        CALL(aclrtSetDevice((int32_t)device));
        CALL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
        EXPECT(number(device, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE) == (int64_t)total);
        CALL(aclrtResetDevice((int32_t)device));
    }
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtGetDeviceInfo(count, ACL_DEV_ATTR_CUBE_CORE_NUM, &value));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtGetDeviceInfo(0, (aclrtDevAttr)9999, &value));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SUPER_POD_ID, &value));
    printf("%u devices, %zu bytes each\n", count, total);
    return aclFinalize();
}
