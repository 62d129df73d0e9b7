/* check: leak */
/* Device memory is left at the end. */
#include "check.h"

int main(void)
{
    start_device();
    void *memory = NEW_BLANK(BYTES); /* check: made by */

    if (!WRONG)
        CALL(aclrtFree(memory));
}
