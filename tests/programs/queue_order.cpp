// A queue within one process: first in, first out, full and empty.
#include "expect.h"

#include <acl/acl_tdt_queue.h>

int main()
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    const uint32_t depth = 4;
    acltdtBuf buffer = nullptr;
    uint32_t queue;
    size_t length;

    CALL(aclInit(nullptr));
    CALL(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    CALL(acltdtCreateQueue(attr, &queue));
    CALL(acltdtDestroyQueueAttr(attr));
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(queue, &buffer, 0));
    for (size_t i = 1; i <= depth; i++) {
        CALL(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buffer));
        CALL(acltdtSetBufDataLen(buffer, i));
        CALL(acltdtEnqueue(queue, buffer, 0));
    }
    CALL(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buffer));
    FAILS(ACL_ERROR_RT_QUEUE_FULL, acltdtEnqueue(queue, buffer, 5));
    CALL(acltdtFreeBuf(buffer)); // still this program's
    for (size_t i = 1; i <= depth; i++) {
        CALL(acltdtDequeue(queue, &buffer, 0));
        CALL(acltdtGetBufDataLen(buffer, &length));
        EXPECT(length == i);
        CALL(acltdtFreeBuf(buffer));
    }
    CALL(acltdtDestroyQueue(queue));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtDequeue(queue, &buffer, 0));
    CALL(aclFinalize());
    printf("%u in order\n", depth);
}
