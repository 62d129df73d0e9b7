/* check: race */
/* check: options --check-host=seen */
/* Two processes: the key of the memory comes by a queue of npud, or by a pipe of the program. */
#include "check.h"

#include <acl/acl_tdt_queue.h>

static void consume(int in, int out)
{
    char key[KEY], got[BYTES];
    uint32_t queues[2], rights;
    void *memory;
    size_t size;

    start_device();
    TAKE(in, queues);
    CALL(acltdtAttachQueue(queues[0], -1, &rights));
    CALL(acltdtAttachQueue(queues[1], -1, &rights));
    if (WRONG)
        TAKE(in, key);
    else
        CALL(acltdtDequeueData(queues[0], key, KEY, &size, NULL, 0, -1));
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    /* check: read by */
    CALL(aclrtMemcpy(got, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    /* check: missing */
    CALL(aclrtIpcMemClose(key));
    CALL(acltdtEnqueueData(queues[1], key, KEY, NULL, 0, -1, 0));
    GIVE(out, key);
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(consume, &in, &out);
    uint32_t queues[2];
    char key[KEY];
    size_t size;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_BLANK(BYTES);

    for (int i = 0; i < 2; i++)
        CALL(acltdtCreateQueue(NULL, &queues[i]));
    CALL(acltdtGrantQueue(queues[0], child, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    CALL(acltdtGrantQueue(queues[1], child, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    GIVE(out, queues);
    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtSynchronizeStream(stream));
    if (WRONG)
        GIVE(out, key);
    else
        CALL(acltdtEnqueueData(queues[0], key, KEY, NULL, 0, -1, 0));
    CALL(acltdtDequeueData(queues[1], key, KEY, &size, NULL, 0, -1));
    EXPECT(ended_well(child));
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    for (int i = 0; i < 2; i++)
        CALL(acltdtDestroyQueue(queues[i]));
    end_device();
}
