/*
 * Listening sockets that survive fd exhaustion. With no descriptor left for a client, npud looks
 * for what is free, as for a request that lacks one (held_request.h), and clients wait in the queue
 * of the socket. If there is none, a reserve is given up to take the client, tell it so and drop
 * it, instead of spinning on a level-triggered listener. An administrator is taken: descriptors are
 * held for one.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/schedule.h"
#include "daemon/control/held_request.h"

struct server;

struct listener {
    struct server *server;
    int fd;
    int reserve;
    int place; /* held for the pidfd of the next client; -1: given up */
    struct event *on_client;
    struct job search; /* for a descriptor: no client is taken meanwhile */
    struct room_wait wait;
    uint64_t closed;    /* deferred_close_count() before the last attempt */
    bool asleep;        /* until something is closed */
    bool found_none;    /* the next client is refused, if it finds none either */
    bool exhausted;     /* logged */
    bool takes_many;    /* clients at once, as long as a step may take */
    bool may_use_spare; /* descriptors of server->spare: clients are administrators */
    /** Takes over the accepted, non-blocking socket. */
    void (*accept)(struct server *server, int socket);
};

/** Accept clients on fd, which does not block. 0 or -errno; fd is taken over in any case. */
int listener_init(struct listener *l, struct server *server, int fd,
                  void (*accept)(struct server *server, int socket));
void listener_deinit(struct listener *l);

/** Does a client wait at this socket? Its accept4() may block if none does, whatever fd says. */
bool listener_has_client(int fd);

/**
 * The client that was accepted has no descriptor for its pidfd: give up the one that is held for
 * it. False: it was given up before.
 */
bool listener_give_place(struct listener *l);

/** Something was closed: a listener that is asleep tries again. Safe on one that is all zero. */
void listener_wake(struct listener *l);
