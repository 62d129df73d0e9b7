/* Buffers that belong together, as the planes of an image. */
#include "expect.h"

#include <acl/acl_tdt_queue.h>

int main(void)
{
    acltdtBuf head, planes[3], member;
    uint32_t count;
    size_t length;

    CALL(aclInit(NULL));
    CALL(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &head));
    for (size_t i = 0; i < 3; i++) {
        CALL(acltdtAllocBuf(1000, ACL_TDT_DVPP_MEM, &planes[i]));
        CALL(acltdtSetBufDataLen(planes[i], i + 1));
        CALL(acltdtAppendBufChain(head, planes[i]));
    }
    CALL(acltdtGetBufChainNum(head, &count));
    EXPECT(count == 4);
    for (uint32_t i = 1; i < count; i++) {
        CALL(acltdtGetBufFromChain(head, i, &member));
        CALL(acltdtGetBufDataLen(member, &length));
        EXPECT(length == i);
    }
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtFreeBuf(planes[0]));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufChainNum(planes[0], &count));
    CALL(acltdtFreeBuf(head));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufDataLen(planes[2], &length));
    printf("%u buffers, freed at once\n", count);
    return aclFinalize();
}
