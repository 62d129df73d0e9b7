/*
 * Listening sockets that survive fd exhaustion: with no descriptor left for a client, a reserve is
 * given up to take the client, tell it so and drop it, instead of spinning on a level-triggered
 * listener.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

struct server;

struct listener {
    struct server *server;
    int fd;
    int reserve;
    char *path; /* unlinked at the end; NULL when systemd owns the socket */
    struct event *on_client;
    bool exhausted; /* logged */
    /** Takes over the accepted, non-blocking socket. */
    void (*accept)(struct server *server, int socket);
};

/** Make and bind a socket at path, for group (empty: own user only). Listening fd or -errno,
 * after logging. */
int listener_bind(const char *path, const char *group, bool everybody);

/** Accept clients on fd. path: see above, copied. 0 or -errno; fd is taken over in any case. */
int listener_init(struct listener *l, struct server *server, int fd, const char *path,
                  void (*accept)(struct server *server, int socket));
void listener_deinit(struct listener *l);
