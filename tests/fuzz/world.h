/*
 * An npud and its clients in one thread: the daemon's own sessions, requests and engines on socket
 * pairs, driven by an input. The clients do what clients can do, and what they should not.
 */
#pragma once

#include "daemon/base/config.h"
#include "daemon/core/server.h"
#include "fuzz.h"
#include "proto/wire/packet.h"
#include "proto/shm/task.h"

#define CLIENTS 3

struct client {
    int socket;  /* -1: not connected */
    int death;   /* what npud has for a pidfd */
    uint64_t id; /* of its session */
    bool mute;   /* does not read replies */
    uint64_t last_request;
};

struct world {
    struct config config;
    struct server server;
    struct client client[CLIENTS];
    unsigned clients; /* that the input commands: the first so many */
    int admin;
    uint8_t handle[8][64]; /* that npud has given out, newest first */
    unsigned n_handles;
    int32_t error; /* of the reply to the latest request; -1: none came */
    int other;     /* stands for the pidfd of a process that is no client */
};

extern struct world world;

/** Start npud. */
void world_begin(void);
/** Set it up anew, as a reload does. WORLD_*, or any bits of an input. */
void world_set_flags(unsigned flags);
#define WORLD_ANY_UID   0x01u
#define WORLD_POOR      0x02u /* limits that are soon reached */
#define WORLD_LINGER_1  0x04u
#define WORLD_LINGER_NO 0x08u
#define WORLD_SPIN      0x10u /* engines spin before they sleep */
#define WORLD_SLOW      0x20u /* time flies: slices end early */

/** All clients leave; then npud must hold nothing, and is ended. */
void world_end(void);

/** Connect a client of this uid, if it is not. Client i has pid 100 + i. */
struct client *world_connect(unsigned i, uid_t uid);
/** What the control thread of npud does between two requests. */
void world_turn(void);
/** Its session in npud, or NULL when that has ended. */
struct session *world_session(const struct client *c);
/** It leaves. */
void world_hang_up(struct client *c);
/** It reads what npud has answered; when npud has ended its session, it leaves. */
void world_read(struct client *c);
/** One packet from a client; npud handles it, and what it answers is checked. */
void world_send(struct client *c, const void *data, size_t size, const int *fds, size_t n_fds);
/**
 * A request whose body is the field of Request with this number, and reads as given; see
 * npud.proto.
 */
void world_request(struct client *c, uint32_t field, const void *body, size_t size);
/** The same without a body that says anything, but for one varint field 1. 0 or the ACL error. */
int32_t world_ask(struct client *c, uint32_t field, uint64_t value);

/** Submit as the client library does. False: no such stream, or the ring is full. */
bool world_submit(struct client *c, uint32_t stream, struct task task);

/** Let npud work until nothing is left to do. Time passes as fast as its timers want. */
void world_rest(void);

/** Take one action from the input and do it. */
void world_act(struct input *in);
