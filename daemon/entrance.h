/*
 * The two sockets through which clients and administrators come: passed by systemd, or npud's own.
 */
#pragma once

#include <stdbool.h>

#include "daemon/base/socket_file.h"

struct config;
struct listener;
struct server;

struct entrance {
    struct socket_file control, admin; /* npud's own */
    const struct listener *clients, *admins;
    bool passed; /* systemd owns the socket of clients */
};

/** Sockets that the supervisor has passed on from systemd; -1: none. Before entrance_open(). */
void entrance_pass(int control, int admin);

/**
 * Could the sockets be opened, as far as the configuration goes and what was passed? Each thing
 * that is wrong has a line in the log. 0 or -errno.
 */
int entrance_check(const struct config *config);

/** Takes what was passed, and what the server before this one has left with the keeper, makes the
 * rest, and accepts on both. 0, or -errno after a line in
 * the log. entrance_close() is called in any case. */
int entrance_open(struct entrance *entrance, struct server *server);
void entrance_close(struct entrance *entrance, struct server *server);

/** The same, but the names stay for the next server. */
void entrance_leave(struct entrance *entrance, struct server *server);

/** For an npud that cannot start: tells every client that waits at a socket passed by systemd why,
 * or else systemd would start npud for it again and again. */
void entrance_refuse(const char *why);
