/*
 * The messages between the supervisor and its servers, over a socket pair for each server that it
 * has started. A server of an earlier supervisor, which is gone with its end of that, has a second
 * one, the life line, whose other end is in systemd's store of descriptors. Both sides may be of
 * different versions of npud: during an upgrade, and afterwards until the supervisor has executed
 * itself again. So operations and flags are only added, an unknown operation is ignored, and a
 * message may be shorter or longer than this one.
 *
 *     supervisor to server
 *     START      the descriptors of `value` (enum supervisor_fd), in the order of their bits
 *     GO         serve. `value`: why the server before has ended (enum supervisor_cause)
 *     LEASE      the lease of a new keeper, attached. `value`: its number
 *     RELOAD     read the configuration again
 *     END        end in order. `value`: the signal that the supervisor got
 *     PING       answer with ALIVE
 *     REFUSED    there is no upgrade: `text` says why
 *
 *     server to supervisor
 *     PREPARED   everything is done that needs no state: it waits for GO
 *     CANNOT     it cannot serve, and its log says why; GO makes it refuse the waiting clients
 *     SERVING    clients are served
 *     ALIVE      no engine hangs
 *     LOST       its keeper, that of the LEASE with the number `value`, has died, or does not
 *                answer a standby. 0: of START
 *     KEPT       the keeper of the LEASE with the number `value` has all
 *     UPGRADE    an administrator asks for the installed program
 *     CAN_READ   `value`: 1 it can read the kept tables; 0 it cannot, and `text` says why
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum supervisor_operation {
    SUPERVISOR_START = 1,
    SUPERVISOR_GO,
    SUPERVISOR_LEASE,
    SUPERVISOR_RELOAD,
    SUPERVISOR_END,
    SUPERVISOR_PING,
    SUPERVISOR_REFUSED,

    SUPERVISOR_PREPARED = 32,
    SUPERVISOR_CANNOT,
    SUPERVISOR_SERVING,
    SUPERVISOR_ALIVE,
    SUPERVISOR_LOST,
    SUPERVISOR_UPGRADE,
    SUPERVISOR_CAN_READ,
    SUPERVISOR_KEPT,
};

/* What START can bring. */
enum supervisor_fd {
    SUPERVISOR_FD_LEASE = 1,   /* to the keeper */
    SUPERVISOR_FD_LIFE = 2,    /* hangs up when no supervisor is left, and none is to come */
    SUPERVISOR_FD_CONTROL = 4, /* the sockets that systemd passed */
    SUPERVISOR_FD_ADMIN = 8,
};
#define SUPERVISOR_FDS 4

/* Why the last server that has served has ended. */
enum supervisor_cause {
    SUPERVISOR_FIRST = 0, /* there was no server */
    SUPERVISOR_KILLED,    /* by SIGKILL, from outside or for a restart or an upgrade */
    SUPERVISOR_CRASHED,   /* by its own doing */
    SUPERVISOR_HUNG,      /* it did not answer, and the supervisor has killed it */
    /* With one of these: nothing of before is to be read, because that has failed too often. */
    SUPERVISOR_CLEAN = 0x100,
};

#define SUPERVISOR_TEXT 400

struct supervisor_message {
    uint32_t operation;
    uint32_t value;
    char text[SUPERVISOR_TEXT]; /* ends with a 0 */
};

/** Sends one; never waits. text may be NULL. The n descriptors stay the caller's. 0 or -errno. */
int supervisor_message_send(int socket, enum supervisor_operation operation, uint32_t value,
                            const char *text, const int *fds, size_t n);

/**
 * Receives one, with at most `room` descriptors, which are the caller's then; further ones are
 * closed. flags as in recvmsg(2). 1, 0: the other side has ended, or -errno.
 */
int supervisor_message_receive(int socket, struct supervisor_message *message, int *fds,
                               size_t room, size_t *n, int flags);
