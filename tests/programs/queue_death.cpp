// The only producer of a queue dies: the consumer that waits is told.
#include "expect.h"

#include <acl/acl_tdt_queue.h>

#include <csignal>
#include <thread>

int main()
{
    uint32_t queue, rights;
    acltdtBuf buffer = nullptr;
    int there[2], back[2];
    char ready = 0;

    EXPECT(pipe(there) == 0 && pipe(back) == 0);
    const pid_t owner = fork();
    if (owner == 0) { // creates the queue, and lets its parent take messages
        const pid_t consumer = getppid();
        CALL(aclInit(nullptr));
        CALL(acltdtCreateQueue(nullptr, &queue));
        CALL(acltdtGrantQueue(queue, consumer, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
        GIVE(back[1], queue);
        TAKE(there[0], ready);
        raise(SIGKILL);
    }
    close(back[1]);
    TAKE(back[0], queue);
    CALL(aclInit(nullptr));
    CALL(acltdtAttachQueue(queue, -1, &rights));
    std::thread killer([&] { GIVE(there[1], ready); });
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtDequeue(queue, &buffer, -1));
    printf("%s\n", aclGetRecentErrMsg());
    killer.join();
    EXPECT(waitpid(owner, nullptr, 0) == owner);
    CALL(aclFinalize());
}
