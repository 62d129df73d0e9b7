#include "client/tools/npuctl/http_listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_storage inet;
        struct sockaddr_un local;
    };
    socklen_t size;
};

/*
 * IP:PORT or [IPV6]:PORT: an IPv6 address without brackets has no port that can be told. Numbers
 * only: a name may mean several addresses, and another tomorrow.
 */
static bool parse_inet(const char *text, struct address *address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char host[64], port[6];
    int end = 0;

    if ((sscanf(text, "[%63[^]]]:%5[0-9]%n", host, port, &end) != 2 &&
         sscanf(text, "%63[^][:]:%5[0-9]%n", host, port, &end) != 2) ||
        text[end] || strtoul(port, NULL, 10) > 65535 ||
        getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    memcpy(&address->inet, found->ai_addr, found->ai_addrlen);
    address->size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool parse_address(const char *text, struct address *address)
{
    *address = (struct address){.size = sizeof(address->local)};
    if (*text != '/')
        return parse_inet(text, address);
    if (strlen(text) >= sizeof(address->local.sun_path))
        return false;
    address->local.sun_family = AF_UNIX;
    strcpy(address->local.sun_path, text);
    return true;
}

/*
 * Removes a socket at which no program listens any more: a killed server has left it. Nothing else,
 * though connect() refuses a plain file in the same way. 0, or -1 and errno.
 */
static int remove_left_over(const struct address *address)
{
    const char *path = address->local.sun_path;
    struct stat st;
    int fd, r;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -1;
    errno = EEXIST;
    if (!S_ISSOCK(st.st_mode))
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    r = connect(fd, &address->any, address->size) < 0 ? errno : 0;
    close(fd);
    errno = EADDRINUSE;
    return r == ECONNREFUSED ? unlink(path) : -1;
}

static int bind_address(int fd, const struct address *address)
{
    const int on = 1;
    int r = -1;

    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (address->any.sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    r = bind(fd, &address->any, address->size);
    if (r < 0 && errno == EADDRINUSE && address->any.sa_family == AF_UNIX) {
        if (remove_left_over(address) < 0)
            return -1;
        r = bind(fd, &address->any, address->size);
    }
    return r < 0 ? r : listen(fd, SOMAXCONN);
}

/* The port is the one that the system has chosen, if it is 0 in the text. */
static void print_place(int fd, const char *text)
{
    struct sockaddr_in6 address; /* the port is where sockaddr_in has it */
    socklen_t size = sizeof(address);

    if (*text == '/')
        printf("npuctl: listens at %s\n", text);
    else if (getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        printf("npuctl: listens at %.*s:%u\n", (int)(strrchr(text, ':') - text), text,
               ntohs(address.sin6_port));
    fflush(stdout);
}

enum status http_listen(const char *text, int *fd)
{
    struct address address;

    if (!parse_address(text, &address)) {
        fprintf(stderr,
                "npuctl: --listen wants an IP address with a port, as 127.0.0.1:9835 or "
                "[::1]:9835, or the path of a socket, not \"%s\"\n",
                text);
        return STATUS_USAGE;
    }
    *fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || bind_address(*fd, &address) < 0) {
        fprintf(stderr, "npuctl: cannot listen at %s: %s\n", text, strerror(errno));
        if (*fd >= 0)
            close(*fd);
        return STATUS_ERROR;
    }
    print_place(*fd, text);
    return STATUS_OK;
}
