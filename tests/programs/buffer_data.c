/* A shared buffer: room, length, and memory that host and device copies take. */
#include "expect.h"

#include <acl/acl_tdt_queue.h>
#include <string.h>

int main(void)
{
    char text[] = "into the buffer", got[sizeof(text)];
    acltdtBuf buffer;
    size_t size, length;
    void *data;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(acltdtAllocBuf(4096, ACL_TDT_NORMAL_MEM, &buffer));
    CALL(acltdtGetBufData(buffer, &data, &size));
    EXPECT(size == 4096 && (uintptr_t)data % 128 == 0);
    CALL(acltdtGetBufDataLen(buffer, &length));
    EXPECT(length == 0);
    CALL(aclrtMemcpy(data, size, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(acltdtSetBufDataLen(buffer, sizeof(text)));
    CALL(acltdtGetBufDataLen(buffer, &length));
    EXPECT(length == sizeof(text));
    CALL(aclrtMemcpy(got, sizeof(got), data, length, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, text) == 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtSetBufDataLen(buffer, size + 1));
    CALL(acltdtFreeBuf(buffer));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtFreeBuf(buffer));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtAllocBuf(0, ACL_TDT_NORMAL_MEM, &buffer));
    CALL(aclrtResetDevice(0));
    puts(got);
    return aclFinalize();
}
