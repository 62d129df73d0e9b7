/*
 * Event descriptors: eventfds that clients have handed over, each written once when a record of an
 * event has become complete, has failed, or has gone with its stream (aclnpudEventNotifyFd()).
 *
 * What a record captured is a position of a stream, or the number of a record of an IPC event; a
 * waiter on either list, like a parked stream. The engine that fires it only sends a work item; the
 * control thread writes.
 *
 * The file is shared with the client, which can fill the counter, and can make writing block:
 * O_NONBLOCK is a property of the file, which the client can change at any moment. So npud never
 * calls write(): the kernel adds 1 for it, as at the end of any asynchronous operation that asks
 * for that (io_submit() with IOCB_FLAG_RESFD). The kernel does not wait there, and writes to
 * nothing but eventfds. The operation is one that is over when it begins.
 */
#pragma once

#include <stdint.h>

#include "daemon/base/user.h"
#include "daemon/core/cause.h"

struct ipc_open;
struct server;
struct session;

/** What a descriptor waits for. */
struct captured {
    struct ipc_open *open; /* target: a record of this event; NULL: a position of `stream` */
    uint32_t stream;       /* slot in the session; one that is free has passed every position */
    uint64_t target;
};

/**
 * Have fd written when that has come, at once if it has. number: its bit in the session page, below
 * EVENT_FDS_MAX, set after fd was written. fd is taken over in any case.
 */
enum cause event_fd_watch(struct session *session, int fd, uint32_t number,
                          const struct captured *captured);

/**
 * The session ends, and its streams are gone: close one that is left, unwritten. True: there was
 * none.
 */
bool event_fd_drop(struct session *session);

/** npud ends. */
void event_fds_deinit(struct server *server);
