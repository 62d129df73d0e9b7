#include "client/tools/npuctl/http_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/tools/npuctl/http_accept.h"
#include "client/tools/npuctl/http_listen.h"
#include "proto/util/clock.h"

#define PEERS_MAX  64
#define HEAD_MAX   8192                         /* bytes of a request */
#define TIME_LIMIT (5 * (uint64_t)NSEC_PER_SEC) /* of a connection, from end to end */

/*
 * A connection has one request and one answer. After the answer it is read until the peer closes
 * it: closed with something unread, the kernel would send a reset, which can overtake the answer.
 */
struct peer {
    int fd; /* -1: none */
    uint64_t deadline;
    size_t got;
    char *answer; /* NULL: the request is not complete */
    size_t size, sent;
    char head[HEAD_MAX + 1];
};

struct http_server {
    const struct http_page *page;
    int listener, signals;
    struct peer peers[PEERS_MAX];
};

static void close_peer(struct peer *p)
{
    close(p->fd);
    free(p->answer);
    p->fd = -1;
    p->answer = NULL;
}

/* --- what is asked --- */

enum request { REQUEST_GET, REQUEST_HEAD, REQUEST_BAD, REQUEST_NOT_FOUND, REQUEST_NOT_ALLOWED };

/* HTTP/1.1 demands one Host, and that a server refuses all else. Lines end with \r\n. */
static bool check_fields(const char *line, bool host_needed)
{
    unsigned hosts = 0;

    for (; strncmp(line, "\r\n", 2) != 0; line = strstr(line, "\r\n") + 2) {
        size_t name = strcspn(line, ": \t\r\n");

        if (name == 0 || line[name] != ':')
            return false;
        hosts += name == 4 && strncasecmp(line, "host", 4) == 0;
    }
    return hosts == 1 || (hosts == 0 && !host_needed);
}

/*
 * Of a head that ends with an empty line and has no byte 0. Cuts the first line into its words. A
 * request for the page tells which form of it.
 */
static enum request read_request(char *head, const struct http_page *page, unsigned *form)
{
    char *line = strstr(head, "\r\n") + 2, *target = strchr(head, ' '), *version;
    size_t n = strlen(page->path);
    bool get;

    *form = 0;
    if (!target || target > line)
        return REQUEST_BAD;
    *target++ = '\0';
    version = strchr(target, ' ');
    if (!version || version > line)
        return REQUEST_BAD;
    *version++ = '\0';
    if ((strncmp(version, "HTTP/1.1\r\n", 10) != 0 && strncmp(version, "HTTP/1.0\r\n", 10) != 0) ||
        !check_fields(line, version[7] == '1'))
        return REQUEST_BAD;
    *form = http_accept(line, page->types);
    if (strncmp(target, page->path, n) != 0 || (target[n] && target[n] != '?'))
        return REQUEST_NOT_FOUND;
    get = strcmp(head, "GET") == 0;
    return get || strcmp(head, "HEAD") == 0 ? get ? REQUEST_GET : REQUEST_HEAD
                                            : REQUEST_NOT_ALLOWED;
}

/* --- what is answered --- */

static char *make_answer(const char *status, const char *type, const char *body, size_t size,
                         bool with_body, size_t *total)
{
    char *answer = NULL;
    FILE *f = open_memstream(&answer, total);

    if (!f)
        return NULL;
    fprintf(f,
            "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Vary: Accept\r\n%sConnection: close\r\n\r\n",
            status, type, size, strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "");
    if (with_body)
        fwrite(body, 1, size, f);
    if (fclose(f) == 0)
        return answer;
    free(answer);
    return NULL;
}

static char *answer_page(const struct http_page *page, unsigned form, bool with_body, size_t *total)
{
    size_t size;
    char *body = page->make(page->data, form, &size), *answer = NULL;

    if (body)
        answer = make_answer("200 OK", page->types[form], body, size, with_body, total);
    free(body);
    return answer;
}

/* False: no memory. */
static bool answer_peer(struct peer *p, enum request request, unsigned form,
                        const struct http_page *page)
{
    static const char *const refusals[] = {[REQUEST_BAD] = "400 Bad Request",
                                           [REQUEST_NOT_FOUND] = "404 Not Found",
                                           [REQUEST_NOT_ALLOWED] = "405 Method Not Allowed"};

    if (request == REQUEST_GET || request == REQUEST_HEAD)
        p->answer = answer_page(page, form, request == REQUEST_GET, &p->size);
    else
        p->answer = make_answer(refusals[request], "text/plain", "", 0, false, &p->size);
    return p->answer != NULL;
}

/* --- connections: false ends one --- */

/* A head that is too long is a bad request, and so is a byte 0, at which C would see its end. */
static bool receive_request(struct peer *p, const struct http_page *page)
{
    ssize_t n = recv(p->fd, p->head + p->got, HEAD_MAX - p->got, 0);
    enum request request;
    unsigned form;
    bool bad;

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    bad = memchr(p->head + p->got, 0, (size_t)n) != NULL;
    p->got += (size_t)n;
    p->head[p->got] = '\0';
    if (!bad && strstr(p->head, "\r\n\r\n")) {
        request = read_request(p->head, page, &form);
        return answer_peer(p, request, form, page);
    }
    return (!bad && p->got < HEAD_MAX) || answer_peer(p, REQUEST_BAD, 0, page);
}

static bool send_answer(struct peer *p)
{
    ssize_t n = send(p->fd, p->answer + p->sent, p->size - p->sent, MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    p->sent += (size_t)n;
    return p->sent < p->size || shutdown(p->fd, SHUT_WR) == 0;
}

static bool discard_rest(struct peer *p)
{
    ssize_t n = recv(p->fd, p->head, HEAD_MAX, 0);

    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void advance_peer(struct peer *p, const struct http_page *page)
{
    bool on = !p->answer          ? receive_request(p, page)
              : p->sent < p->size ? send_answer(p)
                                  : discard_rest(p);

    if (!on)
        close_peer(p);
}

/* A free place, or that of the oldest connection: peers that only sit there keep none out. */
static struct peer *find_place(struct http_server *s)
{
    struct peer *oldest = &s->peers[0];

    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (s->peers[i].fd < 0)
            return &s->peers[i];
        if (s->peers[i].deadline < oldest->deadline)
            oldest = &s->peers[i];
    }
    close_peer(oldest);
    return oldest;
}

/*
 * One in each turn: all that have sent something are served before the next comes, so a flood of
 * connections ends none that has its request there. False: the system has no more descriptors or
 * memory, and would say so again at once.
 */
static bool accept_peer(struct http_server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct peer *p;

    if (fd < 0) {
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
            return true;
        fprintf(stderr, "npuctl: cannot accept a connection: %s\n", strerror(errno));
        return false;
    }
    p = find_place(s);
    p->fd = fd;
    p->deadline = clock_ns() + TIME_LIMIT;
    p->got = p->size = p->sent = 0;
    return true;
}

/* --- the loop --- */

/* Ends what has had its time. Milliseconds until the next has: -1, none will. */
static int expire_peers(struct http_server *s)
{
    uint64_t now = clock_ns(), next = UINT64_MAX;

    for (size_t i = 0; i < PEERS_MAX; i++) {
        struct peer *p = &s->peers[i];

        if (p->fd >= 0 && p->deadline <= now)
            close_peer(p);
        else if (p->fd >= 0 && p->deadline < next)
            next = p->deadline;
    }
    return next == UINT64_MAX ? -1 : (int)((next - now) / NSEC_PER_MSEC) + 1;
}

/* True: a signal has come, or it cannot go on (*status). */
static bool serve_turn(struct http_server *s, enum status *status)
{
    struct pollfd polled[PEERS_MAX + 2];
    int timeout = expire_peers(s);

    for (size_t i = 0; i < PEERS_MAX; i++) {
        const struct peer *p = &s->peers[i];

        polled[i] = (struct pollfd){p->fd, p->answer && p->sent < p->size ? POLLOUT : POLLIN, 0};
    }
    polled[PEERS_MAX] = (struct pollfd){s->listener, POLLIN, 0};
    polled[PEERS_MAX + 1] = (struct pollfd){s->signals, POLLIN, 0};
    if (poll(polled, PEERS_MAX + 2, timeout) < 0) {
        if (errno == EINTR) /* a debugger */
            return false;
        /* RLIMIT_NOFILE is below what is polled: it would say so again at once. */
        fprintf(stderr, "npuctl: cannot wait for connections: %s\n", strerror(errno));
        *status = STATUS_ERROR;
        return true;
    }
    for (size_t i = 0; i < PEERS_MAX; i++)
        if (polled[i].fd >= 0 && polled[i].revents)
            advance_peer(&s->peers[i], s->page);
    if (polled[PEERS_MAX].revents && !accept_peer(s))
        *status = STATUS_ERROR;
    return *status != STATUS_OK || polled[PEERS_MAX + 1].revents;
}

enum status http_serve(const char *address, const struct http_page *page)
{
    static struct http_server s;
    enum status status;
    sigset_t signals;

    s.page = page;
    for (size_t i = 0; i < PEERS_MAX; i++)
        s.peers[i].fd = -1;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    s.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s.signals < 0) {
        fprintf(stderr, "npuctl: no descriptor for signals: %s\n", strerror(errno));
        return STATUS_ERROR;
    }
    status = http_listen(address, &s.listener);
    if (status != STATUS_OK)
        return status;
    while (!serve_turn(&s, &status))
        continue;
    if (*address == '/')
        unlink(address);
    return status;
}
