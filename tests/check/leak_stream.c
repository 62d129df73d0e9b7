/* check: leak */
/* A stream is left at the end. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM(); /* check: made by */

    CALL(aclrtSynchronizeStream(stream));
    if (!WRONG)
        CALL(aclrtDestroyStream(stream));
}
