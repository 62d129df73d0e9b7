#include "proto/wire/packet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire/envelope.h"
#include "proto/util/fd_message.h"
#include "proto/util/lift_fd.h"

/* Room for one more descriptor than is legal, so that a surplus is seen as such and not only as
 * truncation. */
union control {
    char buf[CMSG_SPACE(sizeof(int) * (PACKET_FDS_MAX + 1))];
    struct cmsghdr align;
};

int packet_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags)
{
    return n > PACKET_FDS_MAX ? -EINVAL : fd_message_send(socket, data, size, fds, n, flags);
}

int packet_send_message(int socket, const struct ProtobufCMessage *message, const int *fds,
                        size_t n, int flags)
{
    uint8_t buf[PACKET_MAX];
    size_t size = envelope_pack(message, buf, sizeof(buf));

    return size <= sizeof(buf) ? packet_send(socket, buf, size, fds, n, flags) : -EMSGSIZE;
}

static void collect_fds(struct packet *packet, struct msghdr *msg, bool *surplus)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int fd;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (packet->n_fds == PACKET_FDS_MAX) {
                close(fd);
                *surplus = true;
                continue;
            }
            fd = lift_fd(fd);
            if (fd >= 0)
                packet->fds[packet->n_fds++] = fd;
            else /* as if the kernel had had no number for it */
                msg->msg_flags |= MSG_CTRUNC;
        }
    }
}

static ssize_t receive_message(int socket, struct msghdr *msg, int flags)
{
    ssize_t n;

    do {
        n = recvmsg(socket, msg, flags | MSG_CMSG_CLOEXEC);
        /*
         * A peer that closes before it has read what we sent leaves ECONNRESET, reported once and
         * ahead of its last words. Those say why it closed: go on and read them.
         */
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    return n < 0 ? -errno : n;
}

bool packet_next_has_fds(int socket)
{
    char c;
    struct iovec iov = {.iov_base = &c, .iov_len = sizeof(c)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    /* The kernel gives none out without room for them, and says so. They stay in the packet. */
    return receive_message(socket, &msg, MSG_PEEK | MSG_DONTWAIT) >= 0 &&
           (msg.msg_flags & MSG_CTRUNC);
}

int packet_recv_without_fds(int socket, struct packet *packet, bool look, int flags)
{
    struct iovec iov = {.iov_base = packet->data, .iov_len = sizeof(packet->data)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    packet->n_fds = 0;
    packet->size = 0;
    if (look && packet_next_has_fds(socket))
        return -EPERM;
    n = receive_message(socket, &msg, flags);
    if (n < 0)
        return (int)n;
    if (msg.msg_flags & MSG_CTRUNC)
        return -EPERM;
    if (msg.msg_flags & MSG_TRUNC)
        return -EBADMSG;
    packet->size = (size_t)n;
    return n > 0; /* 0 is the end, or an empty packet, as in packet_recv() */
}

void packet_drop(int socket)
{
    char c;
    struct iovec iov = {.iov_base = &c, .iov_len = sizeof(c)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    receive_message(socket, &msg, MSG_DONTWAIT);
}

int packet_recv(int socket, struct packet *packet, int flags)
{
    union control control;
    struct iovec iov = {.iov_base = packet->data, .iov_len = sizeof(packet->data)};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.buf,
        .msg_controllen = sizeof(control.buf),
    };
    bool surplus = false;
    ssize_t n;

    packet->n_fds = 0;
    packet->size = 0;
    n = receive_message(socket, &msg, flags);
    if (n < 0)
        return (int)n;
    collect_fds(packet, &msg, &surplus);
    if (n == 0 && packet->n_fds == 0 && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0; /* SEQPACKET cannot tell an empty packet from the end: both end the session */
    if (n == 0 || surplus || (msg.msg_flags & MSG_TRUNC)) {
        packet_deinit(packet);
        return -EBADMSG;
    }
    packet->size = (size_t)n;
    if (msg.msg_flags & MSG_CTRUNC) {
        /*
         * Not more than there is room for, so the kernel could not install one: we are out of
         * descriptors.
         */
        packet_deinit(packet);
        return -EMFILE;
    }
    return 1;
}

int packet_take_fd(struct packet *packet, size_t i)
{
    int fd;

    if (i >= packet->n_fds)
        return -1;
    fd = packet->fds[i];
    packet->fds[i] = -1;
    return fd;
}

void packet_deinit(struct packet *packet)
{
    for (size_t i = 0; i < packet->n_fds; i++)
        if (packet->fds[i] >= 0)
            close(packet->fds[i]);
    packet->n_fds = 0;
}
