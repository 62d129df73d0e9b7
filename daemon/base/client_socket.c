#include "daemon/base/client_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/base/worker.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define LOOKS 64 /* at packets that were not read; no honest client leaves two */

/* --- sockets with descriptors in them: closed by a thread --- */

struct left_open {
    struct errand errand;
    int socket;
};

static enum errand_end close_one(struct errand *errand)
{
    close(((struct left_open *)errand)->socket); /* its first member */
    return ERRAND_DONE;
}

/* Never stopped: npud does not wait for it when it ends. */
static struct worker closer = WORKER_LAZY("client-closer", close_one);

/* If there is no memory for it, the socket stays open. */
static void close_by_thread(int socket)
{
    struct left_open *open = malloc(sizeof(*open));

    if (!open)
        return;
    open->socket = socket;
    worker_put(&closer, &open->errand);
}

/* --- what is in a socket --- */

/*
 * The next packet. There is room for its time and not for descriptors, which stay in it. The time
 * tells an empty packet from the end: both have no bytes.
 */
static bool look_at_next(int socket, bool *has_fds)
{
    union {
        char buf[CMSG_SPACE(sizeof(struct timeval))];
        struct cmsghdr align;
    } control;
    char c;
    struct iovec iov = {.iov_base = &c, .iov_len = sizeof(c)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    ssize_t n;

    do {
        n = recvmsg(socket, &msg, MSG_PEEK | MSG_DONTWAIT);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    *has_fds = n >= 0 && (msg.msg_flags & MSG_CTRUNC);
    return n > 0 || (n == 0 && (msg.msg_controllen > 0 || *has_fds));
}

/* One without descriptors. */
static void drop_next(int socket)
{
    char c;
    struct iovec iov = {.iov_base = &c, .iov_len = sizeof(c)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    (void)recvmsg(socket, &msg, MSG_DONTWAIT); /* it was looked at: there is one */
}

/* After this nothing comes any more. True: nothing is left in it, or nothing with descriptors. */
static bool empty_socket(int socket)
{
    int on = 1;
    bool has_fds;

    shutdown(socket, SHUT_RDWR);
    setsockopt(socket, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on));
    for (unsigned i = 0; i < LOOKS; i++) {
        if (!look_at_next(socket, &has_fds))
            return true;
        if (has_fds)
            return false;
        drop_next(socket);
    }
    return false;
}

bool client_socket_refuse_fds(int socket)
{
    int before = 1, off = 0;
    socklen_t size = sizeof(before);

    /* Accepted sockets begin with the setting that the listener had when the client connected. */
    getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &before, &size);
    return setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0 || before != 0;
}

void client_socket_close(int socket, bool takes_fds)
{
    if (!takes_fds || empty_socket(socket))
        close(socket);
    else
        close_by_thread(socket);
}
