/* check: leak */
/* A context is left at the end. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtContext context = NEW(aclrtContext, aclrtCreateContext, 0); /* check: made by */

    if (!WRONG)
        CALL(aclrtDestroyContext(context));
}
