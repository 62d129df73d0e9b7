/*
 * Listening sockets that survive fd exhaustion: with no descriptor left for a client, a reserve is
 * given up to take the client, tell it so and drop it, instead of spinning on a level-triggered
 * listener. An administrator is taken: descriptors are held for one.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

struct server;

struct listener {
    struct server *server;
    int fd;
    int reserve;
    struct event *on_client;
    bool exhausted;     /* logged */
    bool may_use_spare; /* descriptors of server->spare: clients are administrators */
    /** Takes over the accepted, non-blocking socket. */
    void (*accept)(struct server *server, int socket);
};

/** Accept clients on fd, which does not block. 0 or -errno; fd is taken over in any case. */
int listener_init(struct listener *l, struct server *server, int fd,
                  void (*accept)(struct server *server, int socket));
void listener_deinit(struct listener *l);
