/* The name and the depth of a queue, set and read. */
#include "expect.h"

#include <acl/acl_tdt_queue.h>
#include <string.h>

int main(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    const char *name = "frames", *got;
    uint32_t depth = 128, read = 0, queue;
    size_t size;

    EXPECT(attr);
    CALL(aclInit(NULL));
    CALL(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(read), &size, &read));
    EXPECT(read == 8 && size == 4);
    CALL(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), &name));
    CALL(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    CALL(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(got), &size, &got));
    EXPECT(strcmp(got, "frames") == 0);
    CALL(acltdtCreateQueue(attr, &queue));
    CALL(acltdtDestroyQueue(queue));
    depth = 1;
    CALL(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtCreateQueue(attr, &queue));
    CALL(acltdtDestroyQueueAttr(attr));
    puts("named, and 128 deep");
    return aclFinalize();
}
