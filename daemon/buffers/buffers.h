/*
 * Shared buffers and queues as a whole: what the life of npud and of a session calls. Control
 * thread.
 */
#pragma once

#include <stdbool.h>

struct kept_cell;
struct server;
struct session;

/**
 * Peers, pools, queues and the router, and what the lower ones tell the higher ones. 0 or -errno.
 */
int buffers_init(struct server *server);
/** All sessions have ended. */
void buffers_deinit(struct server *server);
/** All objects are there: before sessions go on. False: no memory. */
bool buffers_finish_restoring(struct server *server);

/**
 * The session has ended: what it holds is freed, what it has put into queues stays there, and
 * processes that wait for it learn that it is gone. Then its peer id may be given to another
 * session. Each call does a piece of this. True: it was the last one.
 *
 * If its process lives on, then what the session holds is not freed before that process has exited:
 * it may be between two stores of a call, or use the data of a buffer, and what it holds must not
 * be another's meanwhile. Segments that nothing else is in are given back all the same.
 */
bool buffers_session_end(struct session *session);
