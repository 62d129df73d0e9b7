/* Words of 32 bits: a table on the device begins as -1. */
#include "expect.h"

enum { ENTRIES = 100 };

int main(void)
{
    int32_t table[ENTRIES + 1];
    void *device;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&device, sizeof(table), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(device, sizeof(table), 0, sizeof(table)));
    CALL(aclrtMemsetD32(device, sizeof(table), 0xFFFFFFFF, ENTRIES));
    CALL(aclrtMemcpy(table, sizeof(table), device, sizeof(table), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(table[0] == -1 && table[ENTRIES - 1] == -1 && table[ENTRIES] == 0);
    CALL(aclrtMemsetD32((char *)device + 4, sizeof(table) - 4, 0x01020304, 1));
    CALL(aclrtMemcpy(table, sizeof(table), device, sizeof(table), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(table[0] == -1 && table[1] == 0x01020304 && table[2] == -1);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32((char *)device + 2, 4, 0, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(device, 4 * ENTRIES - 1, 0, ENTRIES));
    CALL(aclrtFree(device));
    CALL(aclrtResetDevice(0));
    printf("%d entries\n", ENTRIES);
    return aclFinalize();
}
