/* check: use-after-free */
/* A task names bytes beyond the end of its memory. */
#include "check.h"

int main(void)
{
    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES); /* check: memory allocated */
    const size_t count = WRONG ? BYTES + 32 : BYTES;

    /* check: (written|used|given) by */
    (void)aclrtMemsetAsync(memory, count, 1, count, stream);
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
