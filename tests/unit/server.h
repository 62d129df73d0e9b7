/*
 * An npud without sockets of its own, inside a test program: set up, and given sessions, by npud's
 * own constructors. The thread that calls this is the control thread. Nothing here asserts, because
 * unit tests and fuzzers do so in different ways.
 */
#pragma once

#include <event2/event.h>

#include "daemon/base/work_item.h"
#include "daemon/control/session_life.h"
#include "daemon/core/server.h"
#include "daemon/npud.h"

#define SERVER_FDS (UINT64_C(1) << 20) /* that this npud believes it may have */

/** Begin with this configuration. 0 or a negative errno. */
static inline int server_begin(struct server *server, struct config *config)
{
    *server = (struct server){.config = config, .fds = SERVER_FDS, .instance = 1};
    npud_assemble(server);
    server_configure(server);
    return npud_begin(server);
}

static inline void server_end(struct server *server)
{
    npud_end(server);
    work_items_deinit(&server->work_items);
    event_base_free(server->base);
}

/**
 * What the control thread does between requests: take back what engines have passed on, read what
 * clients have sent, and end what was begun in slices.
 */
static inline void server_turn(struct server *server)
{
    do {
        event_base_loop(server->base, EVLOOP_NONBLOCK);
    } while (server->ended);
}
