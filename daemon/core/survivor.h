/*
 * Survivors: processes that live on after their session has ended. `npuctl kill`, a broken
 * protocol, and a socket that is closed while the process lives all end a session whose process
 * still has everything mapped, and may be between any two stores of a call.
 *
 * npud keeps such a process as a plain record until the process exits: the pidfd, and what the
 * process can still write. The record takes over the session's charges (one session, one
 * descriptor), so that a user cannot collect survivors beyond the limits.
 *
 * A module that must not use something again while the process can still write it asks
 * survivor_of() when it empties the session's ledger. With a record, it adds its part there
 * (survivor_add()), and does that part's work when the process has exited. Without one, it frees
 * everything at once.
 *
 * A session that ends in order (LeaveSession, sent by aclFinalize) has no survivor: the library has
 * unmapped what it had, and says so. A process that says so and writes on damages what other
 * processes share with it, as it could before; nothing else relies on its word.
 *
 * execve() ends all mappings of a process, but not its pidfd: what it had stays set aside until it
 * exits.
 *
 * Control thread.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"
#include "daemon/core/user.h"
#include "daemon/kept/kept.h"

struct server;
struct session;

/** What a module has left with a survivor: a member of its own object. */
struct survivor_part {
    /* Nothing of the process is written any more. False: only a piece of that was done. */
    bool (*exited)(struct survivor_part *part);
    struct survivor *survivor;
    struct survivor_part *prev, *next; /* survivor->parts */
};

struct survivor {
    struct server *server;
    uint64_t session_id; /* for messages */
    pid_t pid;
    int pidfd; /* -1: not watched yet, the session is still being freed */
    struct kept kept;
    struct event *on_exit;
    struct job job; /* the process has exited: free the parts */
    struct user *user;
    struct charge charge, charge_fd;
    struct survivor_part *parts;  /* the latest first */
    struct survivor *prev, *next; /* server->survivors */
    UT_hash_handle hh;            /* by session_id, while npud restores */
};

/**
 * Does the process live, and may it still write what the session gave it? Asked when the session
 * ends.
 */
bool survivor_of_session(const struct session *session);

/**
 * The record of the session's process, made if need be. Only while the session is being freed.
 * NULL: the process has exited, or has let go of everything; or npud is ending; or there is no
 * memory for a record.
 */
struct survivor *survivor_of(struct session *session);

/**
 * Leave a part: exited() is called when the process has exited, or npud ends, until it is done.
 */
void survivor_add(struct survivor *survivor, struct survivor_part *part,
                  bool (*exited)(struct survivor_part *part));
/** Take it back. Nothing happens when exited() was called. */
void survivor_remove(struct survivor_part *part);

/** The process has exited: the parts are freed. */
void survivor_free_parts(struct survivor *survivor);

/**
 * At the end of session_free(): the record, if there is one, takes over the pidfd, and the process
 * is watched from here on.
 */
void survivor_watch(struct session *session);
/** The restored one of the session with this id, or NULL. While npud restores. */
struct survivor *survivor_by_session(uint64_t session_id);
/** All parts are there: processes are watched again. */
void survivors_finish_restoring(struct server *server);

/** npud ends: forget them all. */
void survivors_deinit(struct server *server);
