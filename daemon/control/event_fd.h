/*
 * Event descriptors, npud's side (aclnpudEventNotifyFd()): a client asks to be told, once, when a
 * record of an event has become complete, has failed, or has gone with its stream. npud sets a bit
 * in the session page and wakes a thread of the client's library, which writes the eventfd. npud
 * itself never has the eventfd: a client could send another file in its place, whose close hangs.
 *
 * What a record captured is a position of a stream, or the number of a record of an IPC event; a
 * waiter on either list, like a parked stream. The engine that fires it only sends a work item; the
 * control thread tells the client.
 */
#pragma once

#include <stdint.h>

#include "daemon/core/user.h"
#include "daemon/core/cause.h"

struct ipc_open;
struct kept_cell;
struct server;
struct session;

/** What a descriptor waits for. */
struct captured {
    struct ipc_open *open; /* target: a record of this event; NULL: a position of `stream` */
    uint32_t stream;       /* slot in the session; one that is free has passed every position */
    uint64_t target;
};

/**
 * Tell the client when that has come, at once if it has. number: its bit in the session page, below
 * EVENT_FDS_MAX.
 */
enum cause event_fd_watch(struct session *session, uint32_t number,
                          const struct captured *captured);

/**
 * The session ends, and its streams are gone: forget one that is left. True: there was none.
 */
bool event_fd_drop(struct session *session);
/** Streams and IPC events are there: each waits again, or its client is told at once. */
void event_fds_finish_restoring(struct server *server);
