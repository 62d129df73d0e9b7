/* A buffer that goes to another process by a queue, and back by a second one. */
#include "expect.h"

#include <acl/acl_tdt_queue.h>
#include <string.h>

static void answer(const uint32_t *queues)
{
    uint32_t rights;
    acltdtBuf buffer;
    size_t size;
    void *data;

    CALL(aclInit(NULL));
    CALL(acltdtAttachQueue(queues[0], -1, &rights));
    EXPECT(rights == ACL_TDT_QUEUE_PERMISSION_DEQUEUE);
    CALL(acltdtAttachQueue(queues[1], -1, &rights));
    CALL(acltdtDequeue(queues[0], &buffer, -1));
    FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtEnqueue(queues[0], buffer, 0));
    CALL(acltdtGetBufData(buffer, &data, &size));
    EXPECT(strcmp(data, "question") == 0);
    strcpy(data, "answer");
    CALL(acltdtEnqueue(queues[1], buffer, -1));
    exit(aclFinalize());
}

int main(void)
{
    uint32_t queues[2];
    acltdtBuf buffer;
    size_t size;
    void *data;
    int ends[2];
    pid_t child;

    EXPECT(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        TAKE(ends[0], queues);
        answer(queues);
    }
    CALL(aclInit(NULL));
    for (int i = 0; i < 2; i++)
        CALL(acltdtCreateQueue(NULL, &queues[i]));
    CALL(acltdtGrantQueue(queues[0], child, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    CALL(acltdtGrantQueue(queues[1], child, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    GIVE(ends[1], queues);
    CALL(acltdtAllocBuf(4096, ACL_TDT_NORMAL_MEM, &buffer));
    CALL(acltdtGetBufData(buffer, &data, &size));
    strcpy(data, "question");
    CALL(acltdtEnqueue(queues[0], buffer, -1));
    CALL(acltdtDequeue(queues[1], &buffer, -1));
    CALL(acltdtGetBufData(buffer, &data, &size));
    printf("%s\n", (char *)data);
    EXPECT(strcmp(data, "answer") == 0);
    CALL(acltdtFreeBuf(buffer));
    EXPECT(ended_well(child));
    for (int i = 0; i < 2; i++)
        CALL(acltdtDestroyQueue(queues[i]));
    return aclFinalize();
}
