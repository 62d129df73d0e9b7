/* What needs no package: pipes, sockets, POSIX message queues. */
#include "tests/bench/peers/peers.h"

#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void begin_nothing(bool first, int other)
{
    (void)first;
    (void)other;
}

/* --- pipe --- */

static int there[2], back[2];

static void prepare_pipe(void)
{
    peers_check(pipe(there) == 0 && pipe(back) == 0, "pipe");
}

static void send_pipe(bool first, const void *message)
{
    peers_check(write(first ? there[1] : back[1], message, MESSAGE) == MESSAGE, "write");
}

static void receive_pipe(bool first, void *message)
{
    peers_check(read(first ? back[0] : there[0], message, MESSAGE) == MESSAGE, "read");
}

const struct peer peer_pipe = {"pipe", prepare_pipe, begin_nothing, send_pipe, receive_pipe};

/* --- socket --- */

static int sockets[2];

static void prepare_socket(void)
{
    peers_check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0, "socketpair");
}

static void send_socket(bool first, const void *message)
{
    peers_check(send(sockets[!first], message, MESSAGE, 0) == MESSAGE, "send");
}

static void receive_socket(bool first, void *message)
{
    peers_check(recv(sockets[!first], message, MESSAGE, 0) == MESSAGE, "recv");
}

const struct peer peer_socket = {"socket (SEQPACKET)", prepare_socket, begin_nothing, send_socket,
                                 receive_socket};

/* --- POSIX message queue --- */

static mqd_t queues[2];

static void prepare_mq(void)
{
    struct mq_attr attr = {.mq_maxmsg = 8, .mq_msgsize = MESSAGE};
    char name[64];

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "/npud-peers-%d-%d", (int)getpid(), i);
        queues[i] = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
        peers_check(queues[i] != (mqd_t)-1, "mq_open");
        mq_unlink(name);
    }
}

static void send_mq(bool first, const void *message)
{
    peers_check(mq_send(queues[!first], message, MESSAGE, 0) == 0, "mq_send");
}

static void receive_mq(bool first, void *message)
{
    peers_check(mq_receive(queues[first], message, MESSAGE, NULL) == MESSAGE, "mq_receive");
}

const struct peer peer_mq = {"POSIX mq", prepare_mq, begin_nothing, send_mq, receive_mq};
