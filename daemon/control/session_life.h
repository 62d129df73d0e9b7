/*
 * The life of a session, from the accepted socket to the last thing that its client has left. The
 * order in which everything of a session goes stands here, and only here. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct kept_cell;
struct server;
struct session;

/** The process at the other end of a socket. */
struct client_process {
    pid_t pid;
    uid_t uid;
    int pidfd;
};

/** Whose socket is it? False: that is not known, and the socket is closed. */
bool session_identify(struct server *server, int socket, struct client_process *process);

/**
 * Take over an accepted socket (closed on failure). Returns NULL after having told the client why,
 * where it can be told.
 */
struct session *session_new(struct server *server, int socket);
/** The same for the socket of this process, whose pidfd is taken over as well. */
struct session *session_new_for(struct server *server, int socket,
                                const struct client_process *process);
/** All is restored: sessions that were ending end, and the others are heard. */
void sessions_finish_restoring(struct server *server);

/**
 * From here on no engine does anything for the session: what its streams have not done stays
 * undone, and the client, if it lives, is not told that it was done. Idempotent.
 */
void session_halt(struct session *session);

/** Prepare for session_end(). 0 or -ENOMEM. */
int sessions_init(struct server *server);
/** Free all sessions. */
void sessions_deinit(struct server *server);

/**
 * Empty the ledger and forget the client. Every process that waits for it is woken with a named
 * error.
 */
void session_free(struct session *session);

/**
 * The same, as far as the time of this step allows. False: the session is there, and there is more
 * to do. From the first call on, nothing but this is done with the session.
 */
bool session_free_some(struct session *session);
