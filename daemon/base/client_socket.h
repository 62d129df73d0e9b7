/*
 * Sockets of clients, npuctl among them. npud takes no descriptor of a client: the last close of a
 * file sleeps for as long as its owner likes, if it is a file of a file system that the client
 * serves, or a socket with SO_LINGER.
 *
 * The kernel refuses descriptors on these sockets (SO_PASSRIGHTS, Linux 6.16). There are
 * some that take them (`takes_fds`): all with an older kernel, and those of clients that connected
 * before npud listened (socket activation). Of these, npud looks at each packet first
 * (packet_recv_without_fds()), and does not close one in which descriptors are left: the kernel
 * would close them, too. A thread does that, which begins with the first such socket. If it hangs,
 * these sockets stay open; others are not closed by it.
 */
#pragma once

#include <stdbool.h>

/** Have the kernel refuse descriptors. Once per socket. True: it has taken some, or may. */
bool client_socket_refuse_fds(int socket);

/** Close it without ever waiting for that. */
void client_socket_close(int socket, bool takes_fds);
