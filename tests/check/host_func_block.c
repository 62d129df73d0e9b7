/* check: race */
/*
 * A stream waits in a host function for the main thread, which fills the memory before, or after.
 * Of the stream that reads the main thread only knows what was before the second function.
 */
#include "check.h"

#include <semaphore.h>

static void tell_main(void *told)
{
    sem_post((sem_t *)told);
}

static void wait_for_main(void *filled)
{
    sem_wait((sem_t *)filled);
}

int main(void)
{
    sem_t filled, told;

    EXPECT(sem_init(&told, 0, 0) == 0 && sem_init(&filled, 0, 0) == 0);
    start_device();
    aclrtStream gate = NEW_STREAM(), consumer = NEW_STREAM();
    aclrtEvent open = NEW_EVENT(ACL_EVENT_SYNC);
    void *memory = NEW_MEMORY(BYTES), *host = NEW_HOST(BYTES);

    CALL(aclrtLaunchHostFunc(gate, wait_for_main, &filled));
    CALL(aclrtRecordEvent(open, gate));
    CALL(aclrtLaunchHostFunc(gate, tell_main, &told));
    CALL(aclrtStreamWaitEvent(consumer, open));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    if (WRONG) {
        sem_post(&filled);
        sem_wait(&told);
    }
    /* check: written by */
    CALL(aclrtMemset(memory, BYTES, 1, BYTES));
    /* check: missing must synchronise */
    if (!WRONG)
        sem_post(&filled);
    end_streams(gate, consumer);
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyEvent(open));
    end_device();
}
