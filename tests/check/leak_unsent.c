/* check: leak */
/* A message that was never sent. */
#include "check.h"

#include <acl/acl_tdt_queue.h>

int main(void)
{
    acltdtBuf buffer;

    start_device();
    /* check: made by */
    CALL(acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &buffer));
    if (!WRONG)
        CALL(acltdtFreeBuf(buffer));
    end_device();
}
