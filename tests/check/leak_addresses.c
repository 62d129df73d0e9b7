/* check: leak */
/* Reserved addresses are left at the end. */
#include "check.h"

int main(void)
{
    void *at;

    start_device();
    CALL(aclrtReserveMemAddress(&at, CHUNK, 0, NULL, 0)); /* check: made by */
    if (!WRONG)
        CALL(aclrtReleaseMemAddress(at));
}
