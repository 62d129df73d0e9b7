/* check: race */
/* A function that a nested model calls comes behind what the model did before it. */
#include "graph.h"

#include <semaphore.h>

static sem_t told;

static void tell_main(void *unused)
{
    (void)unused;
    sem_post(&told);
}

static void fill_and_call(void *memory, aclrtStream stream)
{
    fill_memory(memory, stream);
    if (!WRONG)
        CALL(aclrtLaunchHostFunc(stream, tell_main, NULL));
}

int main(void)
{
    char got[BYTES];

    EXPECT(sem_init(&told, 0, 0) == 0);
    start_device();
    aclrtStream stream = NEW_STREAM(), other = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);
    aclmdlRI model = capture_if(stream, other, 1, fill_and_call, memory);

    /* check: written by */
    CALL(aclmdlRIExecuteAsync(model, stream));
    if (WRONG)
        CALL(aclrtLaunchHostFunc(other, tell_main, NULL));
    sem_wait(&told);
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing must synchronise */
    end_streams(stream, other);
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(memory));
    end_device();
}
