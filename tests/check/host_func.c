/* check: race */
/* A host function tells the main thread that the write is done. It is launched before the write. */
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
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    if (WRONG)
        CALL(aclrtLaunchHostFunc(stream, tell_main, &told));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtLaunchHostFunc(stream, tell_main, &told));
    sem_wait(&told);
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
