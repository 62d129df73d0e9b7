/* check: uninitialised */
/* A sum is added to memory that nothing has set to zero. */
#include "check.h"

#define ADD ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *sum = NEW_BLANK(BYTES); /* check: memory allocated */
    void *more = NEW_MEMORY(BYTES);

    if (!WRONG)
        CALL(aclrtMemsetAsync(sum, BYTES, 0, BYTES, stream));
    /* check: read by */
    CALL(aclrtReduceAsync(sum, more, BYTES, ADD, ACL_FLOAT, stream, NULL));
    end_stream(stream);
    CALL(aclrtFree(sum));
    CALL(aclrtFree(more));
    end_device();
}
