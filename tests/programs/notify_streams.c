/* Two streams on one device, and a notify for each direction. */
#include "expect.h"

int main(void)
{
    aclrtNotify there, back;
    aclrtStream first, second;
    uint32_t id, other;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&first));
    CALL(aclrtCreateStream(&second));
    CALL(aclrtCreateNotify(&there, ACL_NOTIFY_DEFAULT));
    CALL(aclrtCreateNotify(&back, ACL_NOTIFY_DEFAULT));
    CALL(aclrtGetNotifyId(there, &id));
    CALL(aclrtGetNotifyId(back, &other));
    EXPECT(id != other);
    for (int i = 0; i < 20; i++) {
        CALL(aclrtRecordNotify(there, first));
        CALL(aclrtWaitAndResetNotify(back, first, 0));
        CALL(aclrtWaitAndResetNotify(there, second, 0));
        CALL(aclrtRecordNotify(back, second));
    }
    CALL(aclrtSynchronizeStream(first));
    CALL(aclrtSynchronizeStream(second));
    CALL(aclrtDestroyNotify(there));
    CALL(aclrtDestroyNotify(back));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordNotify(back, first));
    CALL(aclrtDestroyStream(first));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtResetDevice(0));
    puts("20 rounds");
    return aclFinalize();
}
