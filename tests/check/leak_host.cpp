// check: leak
// Pinned memory is left at the end.
#include "check.h"

int main()
{
    start_device();
    void *memory = NEW_HOST(BYTES); // check: made by

    if (!WRONG)
        CALL(aclrtFreeHost(memory));
}
