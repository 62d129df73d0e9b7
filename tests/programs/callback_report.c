/* A thread that runs the callbacks of a stream. */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int ran, leave;

static void note_run(void *data)
{
    EXPECT(*(int *)data == ran);
    ran++;
}

static void *process_reports(void *context)
{
    CALL(aclrtSetCurrentContext(context));
    while (!leave)
        (void)aclrtProcessReport(100); /* none in time is no failure */
    return NULL;
}

int main(void)
{
    int numbers[] = {0, 1, 2, 3, 4};
    aclrtContext context;
    aclrtStream stream;
    pthread_t thread;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&context));
    CALL(aclrtCreateStream(&stream));
    EXPECT(pthread_create(&thread, NULL, process_reports, context) == 0);
    FAILS(ACL_ERROR_RT_STREAM_NO_CB_REG,
          aclrtLaunchCallback(note_run, numbers, ACL_CALLBACK_BLOCK, stream));
    CALL(aclrtSubscribeReport((uint64_t)thread, stream));
    for (int i = 0; i < 5; i++)
        CALL(aclrtLaunchCallback(note_run, &numbers[i], ACL_CALLBACK_BLOCK, stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(ran == 5);
    CALL(aclrtUnSubscribeReport((uint64_t)thread, stream));
    leave = 1;
    pthread_join(thread, NULL);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    printf("%d callbacks\n", (int)ran);
    return aclFinalize();
}
