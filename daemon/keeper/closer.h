/*
 * Closes descriptors, none of which may hold the keeper up. Three kinds can:
 *
 * - Memory: the last close of a memfd frees its pages, which takes a second for some GiB.
 * - A client's socket: descriptors that the client has sent into it are closed with it, and the
 *   last close of a file sleeps for as long as the client likes (daemon/base/client_socket.h).
 * - What a client can watch: its socket, when that is shut down, and an eventfd. The kernel calls
 *   each watch (daemon/base/deferred_close.h).
 *
 * A thread for each kind does these; it begins with the first. If a socket hangs, the sockets
 * behind it stay open, but they are only those in which descriptors may be left. All other
 * descriptors are closed at once.
 */
#pragma once

#include <stdbool.h>

/** Takes fd over. ending: its owner has ended, so a connection is shut down, whatever is left in
 * it. One thread at a time. */
void closer_close(int fd, bool ending);

/** Has everything been closed? */
bool closer_is_idle(void);
