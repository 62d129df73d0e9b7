/* A record that an event loop waits for, beside its other descriptors. */
#include "expect.h"

#include <acl/acl_npud.h>
#include <poll.h>
#include <sys/eventfd.h>

int main(void)
{
    struct pollfd poll_fd = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    aclrtEventRecordedStatus status;
    aclrtEvent gate, event;
    aclrtStream stream;

    EXPECT(poll_fd.fd >= 0);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    CALL(aclrtCreateEvent(&event));
    CALL(aclrtStreamWaitEvent(stream, gate));
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclnpudEventNotifyFd(event, poll_fd.fd));
    EXPECT(poll(&poll_fd, 1, 0) == 0);
    CALL(aclrtRecordEvent(gate, NULL));
    EXPECT(poll(&poll_fd, 1, -1) == 1);
    CALL(aclrtQueryEventStatus(event, &status));
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyEvent(gate));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("poll() told of the record");
    return aclFinalize();
}
