/* check: race */
/* A host function tells the main thread that what was before it in its stream is done. */
#include "check.h"

#include <semaphore.h>

static void tell_main(void *told)
{
    sem_post((sem_t *)told);
}

int main(void)
{
    char got[BYTES];
    sem_t told;

    EXPECT(sem_init(&told, 0, 0) == 0);
    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtLaunchHostFunc(WRONG ? other : stream, tell_main, &told));
    sem_wait(&told);
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_streams(stream, other);
    CALL(aclrtFree(memory));
    end_device();
}
