/* ZeroMQ: a pair of PAIR sockets over ipc://. */
#include "tests/bench/peers/peers.h"

#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

static char address[64];
static void *pair_socket;

static void prepare_zmq(void)
{
    snprintf(address, sizeof(address), "ipc://@npud-peers-%d", (int)getpid());
}

static void begin_zmq(bool first, int other)
{
    void *context = zmq_ctx_new();

    (void)other;
    pair_socket = zmq_socket(context, ZMQ_PAIR);
    peers_check(pair_socket && (first ? zmq_bind(pair_socket, address)
                                      : zmq_connect(pair_socket, address)) == 0,
                "zmq");
}

static void send_zmq(bool first, const void *message)
{
    (void)first;
    peers_check(zmq_send(pair_socket, message, MESSAGE, 0) == MESSAGE, "zmq_send");
}

static void receive_zmq(bool first, void *message)
{
    (void)first;
    peers_check(zmq_recv(pair_socket, message, MESSAGE, 0) == MESSAGE, "zmq_recv");
}

const struct peer peer_zmq = {"ZeroMQ", prepare_zmq, begin_zmq, send_zmq, receive_zmq};
