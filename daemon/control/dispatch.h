/* Requests of clients: the dispatch table of the control protocol. Control thread. */
#pragma once

#include <stdint.h>

struct call;
struct session;

/** The session's socket is readable: take requests, answer them. May free the session. */
void dispatch_handle(struct session *session);

/** Tell a client that it is not let in, as reply to its first request, which has id 1. */
void dispatch_refuse(int socket, int32_t error, const char *message);

/**
 * The handler of the request OwnWaits, which another room has. Set before the first client comes:
 * npud.c.
 */
extern int32_t (*dispatch_own_waits)(struct call *call);
