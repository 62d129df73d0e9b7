/* check: leak */
/* A message that was taken and never freed. */
#include "check.h"

#include <acl/acl_tdt_queue.h>

int main(void)
{
    acltdtBuf sent, got;
    uint32_t queue;

    start_device();
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    CALL(acltdtCreateQueue(attr, &queue));
    acltdtDestroyQueueAttr(attr);
    CALL(acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &sent));
    CALL(acltdtEnqueue(queue, sent, 0));
    /* check: made by */
    CALL(acltdtDequeue(queue, &got, 0));
    if (!WRONG)
        CALL(acltdtFreeBuf(got));
    CALL(acltdtDestroyQueue(queue));
    end_device();
}
