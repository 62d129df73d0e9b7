/*
 * The supervisor: the main process of an npud that comes back. It has one server that serves, and a
 * standby, a server that has been executed, has read its configuration, and waits. When the server
 * dies the standby goes on; what the standby needs of it is with the keeper (daemon/keeper).
 *
 * A crash, a restart and an upgrade are one path: the old server is killed, and the next one
 * recovers. No server is asked to hand anything over.
 *
 *     what ends              what happens
 *     the server, killed     the standby goes, and a new standby is started
 *     the server, in order   so does npud
 *     the server, killed     the standby goes, and is to end in order: it removes what the dead
 *       while npud ends      one has made, and tells the sessions
 *     the keeper             the server gives everything to a new one
 *     the supervisor         a service: systemd starts another, which gets the lease, the server
 *                            and its life line from the store of descriptors, makes a standby
 *                            ready, and replaces the server, which serves until then
 *                            otherwise: the life line hangs up, and the server ends in order
 *     everything             systemd starts it again; only the keeper has lived
 *
 * Recoveries that fail have a limit: then a server begins anew. So has that: then npud ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/supervisor/attempts.h"
#include "daemon/supervisor/child.h"
#include "daemon/supervisor/fd_store.h"
#include "proto/util/clock.h"

enum candidate_for {
    CANDIDATE_STANDBY, /* in place of the standby, whose configuration is old */
    CANDIDATE_UPGRADE, /* in place of the server */
};

struct supervisor {
    /* what does not change */
    const char *npud; /* paths of what is installed */
    const char *keeper_path, *self;
    char **argv;        /* of this process, for executing it again */
    char **server_argv; /* of servers; the first four are ours */
    bool fd_store;
    int ready_fd; /* -1: not wanted */

    int signals;
    int control, admin;    /* sockets that systemd passed; -1 */
    int lease;             /* -1: there is no keeper */
    uint32_t lease_number; /* of the last LEASE; an earlier supervisor has given out others */
    struct child keeper;
    struct child server, standby, candidate;
    enum candidate_for candidate_for;
    struct executable *program;      /* what standbys are started from */
    struct executable *good_program; /* what has served last; NULL: none has */
    struct attempts recoveries, standbys, keepers;
    unsigned
        anew_failed; /* servers in a row that were to begin anew, and failed before they served */
    uint32_t cause;  /* for the next GO: enum supervisor_cause */
    uint64_t watchdog_ns, next_watchdog_ns; /* 0: no watchdog */
    bool replace;                           /* kill the server once the standby is ready */
    bool upgrading;                         /* the server is replaced by the installed program */
    bool again;                             /* it was: the supervisor is to be, too */
    bool no_standby; /* it fails: do not try again before something has changed */
    uint64_t standby_at_ns, keeper_at_ns; /* the next try of one that could not be started; 0 */
    bool told_ready;
    bool served;    /* some server has, so there may be sessions */
    int end_signal; /* npud is to end because of it; 0: it goes on */
    bool over;      /* nothing is left to do */
    int status;     /* to exit with */
};

/* Between two tries to start a process. */
#define SUPERVISOR_PAUSE_NS NSEC_PER_SEC

/** Runs npud until its end. Returns the exit status. */
int supervisor_run(struct supervisor *s);

/** Finds a keeper, if there is none: an earlier supervisor has left none, or that has died. Those
 * servers that are there get it. If none can be started, it is tried again, three times in all. */
void supervisor_open_lease(struct supervisor *s);

/** Waits for the next thing to happen, and does what is to be done then. */
void supervisor_step(struct supervisor *s);

/* --- what happens (daemon/supervisor/on_event.c) --- */

void on_signal(struct supervisor *s, int number);
void on_message(struct supervisor *s, struct child *child);
void on_end(struct supervisor *s, struct child *child);
void on_deadline(struct child *child);
void on_lease_lost(struct supervisor *s);
/** It could not be started, or has ended as it started. status: npud's, if that is its end. */
void on_standby_failed(struct supervisor *s, int status);
void on_watchdog(struct supervisor *s);

/* --- servers (daemon/supervisor/server_start.c) --- */

/** Starts a server that waits for GO. ask: it says whether it can read the kept tables. 0 or
 * -errno. */
int server_start(struct supervisor *s, struct child *child, struct executable *program, bool ask);

/** The standby becomes the server. */
void server_let_go(struct supervisor *s);

/** Does what can be done now. After everything that has happened. */
void supervisor_advance(struct supervisor *s);
