/* check: leak */
/*
 * A child leaves pinned memory. It ends by _exit(2), as those of Python's multiprocessing do, but
 * has ended its session by aclFinalize.
 */
#include "check.h"

static void finalize_and_leave(int in, int out)
{
    (void)in;
    (void)out;
    start_device();
    void *memory = NEW_HOST(BYTES); /* check: made by */

    if (!WRONG)
        CALL(aclrtFreeHost(memory));
    end_device();
    _exit(0);
}

int main(void)
{
    int in, out;
    pid_t child = start_child(finalize_and_leave, &in, &out);

    start_device();
    EXPECT(ended_well(child));
    end_device();
}
