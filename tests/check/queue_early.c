/* check: race */
/* Two processes: a message goes through a queue before the stream has done what it tells of. */
#include "check.h"

#include <acl/acl_tdt_queue.h>

static void consume(int in, int out)
{
    uint32_t queue, rights;
    char key[KEY];
    void *memory;
    size_t size;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *host = NEW_HOST(BYTES);

    TAKE(in, queue);
    CALL(acltdtAttachQueue(queue, -1, &rights));
    CALL(acltdtDequeueData(queue, key, KEY, &size, NULL, 0, -1));
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for an event that is recorded after the write */
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFreeHost(host));
    GIVE(out, key);
    CALL(aclrtResetDevice(0));
}

int main(void)
{
    int in, out;
    pid_t child = start_child(consume, &in, &out);
    uint32_t queue;
    char key[KEY];

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(acltdtCreateQueue(NULL, &queue));
    CALL(acltdtGrantQueue(queue, child, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    GIVE(out, queue);
    CALL(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 1));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(acltdtEnqueueData(queue, key, KEY, NULL, 0, -1, 0));
    TAKE(in, key);
    EXPECT(ended_well(child));
    end_stream(stream);
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    CALL(acltdtDestroyQueue(queue));
    end_device();
}
