#include "proto/util/fd_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    char buf[CMSG_SPACE(sizeof(int) * FD_MESSAGE_FDS)];
    struct cmsghdr align;
};

int fd_message_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags)
{
    union control control;
    struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n > FD_MESSAGE_FDS)
        return -EINVAL;
    if (n > 0) {
        struct cmsghdr *cmsg;

        memset(&control, 0, CMSG_SPACE(sizeof(int) * n));
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n);
    }
    while (sendmsg(socket, &msg, flags | MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

static size_t collect_fds(struct msghdr *msg, int *fds)
{
    size_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(fds + n, CMSG_DATA(c), got * sizeof(int));
        n += got;
    }
    return n;
}

ssize_t fd_message_receive(int socket, void *data, size_t size, int *fds, size_t *n, int flags)
{
    union control control;
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    ssize_t r;

    *n = 0;
    do {
        r = recvmsg(socket, &msg, flags | MSG_CMSG_CLOEXEC);
    } while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    *n = collect_fds(&msg, fds);
    if (!(msg.msg_flags & MSG_TRUNC))
        return r;
    while (*n > 0)
        close(fds[--*n]);
    return -EBADMSG;
}
