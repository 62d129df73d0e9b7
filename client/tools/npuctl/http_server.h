/* A server of one page over HTTP, by libmicrohttpd: one thread, no encryption. */
#pragma once

#include <stddef.h>

#include "client/tools/npuctl/task.h"

/** What is served. */
struct http_page {
    const char *path;     /* of its URL */
    const char *types[2]; /* Content-Type of its forms; the first, if a request prefers neither */
    /** Its text in a form, of *size bytes, freed by the caller. NULL: no memory. Called for each
     * request. */
    char *(*make)(void *data, unsigned form, size_t *size);
    void *data;
};

/**
 * Serves until SIGTERM or SIGINT. The address: IP:PORT, [IPV6]:PORT (port 0: one that is free), or
 * the path of a Unix socket, which begins with a slash. Says on stdout where it listens, once it
 * does. A signal is STATUS_OK, a wrong address STATUS_USAGE.
 */
enum status http_serve(const char *address, const struct http_page *page);
