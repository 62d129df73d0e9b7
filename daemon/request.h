/* Requests of clients: the dispatch table of the control protocol. Control thread. */
#pragma once

#include <stdint.h>

struct session;

/** The session's socket is readable: take requests, answer them. May free the session. */
void request_handle(struct session *session);

/** Answer a client that is not let in, whatever it asks, as reply to its first request. */
void request_refuse(struct session *session, int32_t error, const char *message);
