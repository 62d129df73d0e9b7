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

/* Splits IP:PORT or [IPV6]:PORT. An IPv6 address without brackets has no port that can be told. */
static bool split_address(const char *text, char host[64], const char **port)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;

    if (!colon || !colon[1])
        return false;
    if (*text == '[') {
        begin++;
        end--;
        if (end < begin || *end != ']')
            return false;
    } else if (strchr(text, ':') != colon) {
        return false;
    }
    if (end == begin || end - begin >= 64)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = colon + 1;
    return true;
}

/* Numbers only: a name may mean several addresses, and another tomorrow. */
static bool parse_inet(const char *text, struct address *address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char host[64];
    const char *port;

    if (!split_address(text, host, &port) || strlen(port) > 5 ||
        strspn(port, "0123456789") != strlen(port) || strtoul(port, NULL, 10) > 65535 ||
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

static void print_place(int fd, const char *text)
{
    struct address address = {.size = sizeof(address.inet)};
    char host[64], port[8];
    bool inet = *text != '/' && getsockname(fd, &address.any, &address.size) == 0 &&
                getnameinfo(&address.any, address.size, host, sizeof(host), port, sizeof(port),
                            NI_NUMERICHOST | NI_NUMERICSERV) == 0;

    if (inet)
        printf(address.any.sa_family == AF_INET6 ? "npuctl: listens at [%s]:%s\n"
                                                 : "npuctl: listens at %s:%s\n",
               host, port);
    else
        printf("npuctl: listens at %s\n", text);
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
