/* Requests of clients: the dispatch table of the control protocol. Control thread. */
#pragma once

#include <stdint.h>

struct call;
struct session;
struct user;

/** What came of it. */
enum dispatched {
    DISPATCH_NONE,    /* there is no request */
    DISPATCH_HANDLED, /* it is answered */
    DISPATCH_WAITS,   /* it lacks something, and is tried again in the session's next turn */
    DISPATCH_SLEEPS,  /* the same, when the session is listed again: held_request.h */
    DISPATCH_ENDED,   /* the session has ended, and may be freed */
};

/**
 * Take a request of the session, and answer it. The request that waits is held (session.held), and
 * none after it is read before it is answered.
 */
enum dispatched dispatch_handle(struct session *session);

/** The session is being freed: forget the request that it has waiting. */
void dispatch_drop_held(struct session *session);

/**
 * Tell a client that it is not let in, as reply to its first request, which has id 1. user: that
 * with which deferred_close_socket() will close its socket.
 */
void dispatch_refuse(const struct user *user, int socket, int32_t error, const char *message);

/**
 * The handler of the request OwnWaits, which another room has. Set before the first client comes:
 * npud.c.
 */
extern int32_t (*dispatch_own_waits)(struct call *call);
extern void (*dispatch_drop_own_waits)(struct session *session);
