/* nanomsg: a pair of PAIR sockets over ipc://, which is a socket in the file system. */
#include "tests/bench/peers/peers.h"

#include <nanomsg/nn.h>
#include <nanomsg/pair.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char address[64];
static int pair_socket;

static void prepare_nanomsg(void)
{
    snprintf(address, sizeof(address), "ipc:///tmp/npud-peers-%d", (int)getpid());
}

static void remove_address(void)
{
    unlink(address + sizeof("ipc://") - 1);
}

static void begin_nanomsg(bool first, int other)
{
    (void)other;
    pair_socket = nn_socket(AF_SP, NN_PAIR);
    peers_check(pair_socket >= 0 &&
                    (first ? nn_bind(pair_socket, address) : nn_connect(pair_socket, address)) >= 0,
                "nanomsg");
    if (first)
        atexit(remove_address);
}

static void send_nanomsg(bool first, const void *message)
{
    (void)first;
    peers_check(nn_send(pair_socket, message, MESSAGE, 0) == MESSAGE, "nn_send");
}

static void receive_nanomsg(bool first, void *message)
{
    (void)first;
    peers_check(nn_recv(pair_socket, message, MESSAGE, 0) == MESSAGE, "nn_recv");
}

const struct peer peer_nanomsg = {"nanomsg", prepare_nanomsg, begin_nanomsg, send_nanomsg,
                                  receive_nanomsg};
