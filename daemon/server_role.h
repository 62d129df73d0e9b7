/*
 * npud as a server of a supervisor (daemon/supervisor): it does everything that needs no state,
 * waits until it is let go, and then has what the server before it has left with the keeper. An
 * npud that does not come back has no such role: every call does nothing then.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/supervisor_message.h"

struct options;
struct server;

/* What the supervisor, or its end, asks of npud. */
struct server_role_calls {
    void (*end)(void *arg, const char *why);
    void (*reload)(void *arg);
    bool (*is_alive)(void *arg);
    void (*upgrade_refused)(void *arg, const char *why);
    /* There is another keeper, which gets what npud has open as soon as this returns. */
    void (*keeper_follows)(void *arg);
    void *arg;
};

/** `npud --restartable`: executes the supervisor. Returns -errno after a line in the log. */
int server_role_exec_supervisor(const struct options *options);

/** Takes what the supervisor sends first. 0 or -errno. */
int server_role_begin(const struct options *options);

/**
 * Ready to serve, or at least to refuse: waits until the supervisor lets this server go, and then
 * until the last thread of the server before it is gone. 1; 0: it is not needed; or -errno after a
 * line in the log.
 */
int server_role_await_go(bool can_serve);

/** May the server before this one have left anything? */
bool server_role_is_next(void);

/**
 * Begins with kept memory: that of the server before, and then *restore, or a new one. Nothing of
 * the server before runs any more. 0, or -errno after a line in the log.
 */
int server_role_begin_tables(bool *restore);

/** Listens to the supervisor, from npud's loop. 0, or -errno after a line in the log. */
int server_role_attach(struct server *server, const struct server_role_calls *calls);

/** Clients are served. */
void server_role_tell_serving(void);

/** Asks for the installed program in place of this one. False: there is no supervisor. If nothing
 * comes of it, upgrade_refused() says why. */
bool server_role_request_upgrade(void);
