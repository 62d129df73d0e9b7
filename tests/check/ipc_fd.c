/* check: race */
/* Two processes: the memory comes by a descriptor, and the consumer's stream must wait, too. */
#include "check.h"

#include <sys/wait.h>

static int consume(int fd)
{
    void *memory;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *host = NEW_HOST(BYTES);

    CALL(aclnpudMemImportFd(&memory, fd, 0));
    /* check: read by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    /* check: missing must wait for an event that is recorded after the write */
    end_stream(stream);
    CALL(aclnpudMemCloseFd(fd));
    CALL(aclrtFreeHost(host));
    end_device();
    return 0;
}

int main(void)
{
    pid_t child;
    int fd;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclnpudMemExportFd(memory, BYTES, 1, &fd));
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    child = fork();
    if (child == 0)
        exit(consume(fd));
    EXPECT(ended_well(child));
    end_stream(stream);
    close(fd);
    CALL(aclrtFree(memory));
    end_device();
}
