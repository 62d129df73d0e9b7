/* The listening socket of http_server: TCP at a numeric address, or a Unix socket. */
#pragma once

#include "client/tools/npuctl/task.h"

/**
 * Listens at IP:PORT, [IPV6]:PORT or the path of a Unix socket, and says on stdout where. The
 * socket does not block. On an error a sentence is on stderr: STATUS_USAGE for what is no address.
 */
enum status http_listen(const char *address, int *fd);
