/* check: leak */
/* A notify is left at the end. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtNotify notify = NEW_NOTIFY(); /* check: made by */

    if (!WRONG)
        CALL(aclrtDestroyNotify(notify));
}
