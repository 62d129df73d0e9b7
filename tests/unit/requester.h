/*
 * Clients that the test itself is, at the other end of a socket: they send requests, and read
 * answers when it suits them.
 */
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>

#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/unit/npud.h"

static struct packet packet; /* the one read last */

/** A client of that user that has said nothing yet. */
static inline int connect_as(uid_t uid)
{
    struct client_process client = {.pid = getpid(), .uid = uid};
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    client.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    ck_assert_ptr_nonnull(session_new_for(&server, pair[1], &client));
    return pair[0];
}

/** It is in the socket; npud has had no turn yet. */
static inline void put_request(int fd, Npud__Request *request)
{
    request->id = 1;
    ck_assert_int_eq(packet_send_message(fd, &request->base, NULL, 0, 0), 0);
}

static inline void send_request(int fd, Npud__Request *request)
{
    put_request(fd, request);
    npud_turn();
}

static inline void put_hello(int fd)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__Hello in = NPUD__HELLO__INIT;

    in.protocol = PROTOCOL;
    in.program = (char *)"test";
    q.hello = &in;
    q.body_case = NPUD__REQUEST__BODY_HELLO;
    put_request(fd, &q);
}

static inline void ask_hello(int fd)
{
    put_hello(fd);
    npud_turn();
}

static inline void ask_segment(int fd, uint64_t stride, uint32_t count)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateSegment in = NPUD__CREATE_SEGMENT__INIT;

    in.stride = stride;
    in.count = count;
    q.create_segment = &in;
    q.body_case = NPUD__REQUEST__BODY_CREATE_SEGMENT;
    put_request(fd, &q);
}

static inline void ask_mem_info(int fd)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__MemInfo in = NPUD__MEM_INFO__INIT;

    q.mem_info = &in;
    q.body_case = NPUD__REQUEST__BODY_MEM_INFO;
    put_request(fd, &q);
}

/** Its error, with its descriptors closed; -1: there is no answer, -2: npud has hung up. */
static inline int32_t read_answer(int fd, size_t *n_fds)
{
    int r = packet_recv(fd, &packet, MSG_DONTWAIT);
    Npud__Reply *reply;
    int32_t error;

    *n_fds = 0;
    if (r <= 0)
        return r == -EAGAIN ? -1 : -2;
    *n_fds = packet.n_fds;
    packet_deinit(&packet);
    reply = npud__reply__unpack(NULL, packet.size, packet.data);
    ck_assert_ptr_nonnull(reply);
    error = reply->error;
    ck_assert(error != 0 || reply->message[0] == '\0');
    npud__reply__free_unpacked(reply, NULL);
    return error;
}

static inline int32_t await_answer(int fd, size_t *n_fds)
{
    int32_t error;

    while ((error = read_answer(fd, n_fds)) == -1)
        schedule_round(&server.schedule, server.base, true);
    return error;
}

/** Rounds of the loop until there is an answer. */
static inline int32_t count_rounds(int fd, unsigned *rounds)
{
    int32_t error;
    size_t n;

    for (*rounds = 0; (error = read_answer(fd, &n)) == -1; ++*rounds)
        schedule_round(&server.schedule, server.base, true);
    return error;
}

static inline int open_as(uid_t uid)
{
    int fd = connect_as(uid);
    size_t n;

    ask_hello(fd);
    ck_assert_int_eq(await_answer(fd, &n), 0);
    ck_assert_uint_eq(n, 1);
    return fd;
}

/** Clients that have no requests end, and all sessions with them. */
static inline void close_all(const int *fd, int n)
{
    for (int i = 0; i < n; i++)
        close(fd[i]);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 0);
}
