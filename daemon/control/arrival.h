/*
 * Clients that have connected, and are no sessions yet. The queue of the listening socket is one
 * for all users, and a process can fill it: connect() does not wait for accept(), and who closes
 * its end stays in the queue. So npud takes connections out of there as fast as they come, which
 * costs little, and makes sessions of them in turns of their users, which costs more.
 *
 * An arrival is charged as a session is. Control thread.
 */
#pragma once

struct server;
struct user;

/** Take over the accepted, non-blocking socket. */
void arrival_take(struct server *server, int socket);

/** npud ends. */
void arrivals_deinit(struct server *server);
