/*
 * Copies what a fill on another stream has written, three times, and prints what it got. Without an
 * argument the wait is missing. For test-npu-run.sh.
 */
#include <acl/acl.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    unsigned char *device, *host;
    aclrtStream a, b;
    aclrtEvent e;

    (void)argv;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&a) || aclrtCreateStream(&b) ||
        aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC) ||
        aclrtMalloc((void **)&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST) ||
        aclrtMallocHost((void **)&host, 4096) || aclrtMemset(device, 4096, 0, 4096))
        return 2;
    for (int i = 1; i <= 3; i++) {
        aclrtMemsetAsync(device, 4096, i, 4096, a);
        aclrtRecordEvent(e, a);
        if (argc > 1)
            aclrtStreamWaitEvent(b, e);
        aclrtMemcpyAsync(host, 4096, device, 4096, ACL_MEMCPY_DEVICE_TO_HOST, b);
        aclrtSynchronizeStream(b);
        printf("%d\n", host[0]);
        aclrtSynchronizeStream(a);
    }
    return 0;
}
