/* check: race */
/* Two streams fill two halves of a buffer. The first writes one byte of the second half, too. */
#include "check.h"

int main(void)
{
    const size_t half = BYTES / 2;

    start_device();
    aclrtStream left = NEW_STREAM(), right = NEW_STREAM();
    char *memory = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, WRONG ? half + 1 : half, left));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory + half, half, 2, half, right));
    /* check: missing must wait for an event that is recorded after the write */
    end_streams(left, right);
    CALL(aclrtFree(memory));
    end_device();
}
