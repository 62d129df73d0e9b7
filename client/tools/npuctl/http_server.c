#include "client/tools/npuctl/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "client/tools/npuctl/http_accept.h"
#include "client/tools/npuctl/http_listen.h"
#include "proto/util/clock.h"

#define PEERS_MAX  64
#define FDS_MAX    96                           /* of connections, with those that are ending */
#define POOL_BYTES 16384                        /* of a request, and of the head of its answer */
#define TIME_LIMIT (5 * (uint64_t)NSEC_PER_SEC) /* of a connection, from end to end */

/* If 128 descriptors are ready at once, the library sleeps before it looks at them (0.9.75). */
_Static_assert(FDS_MAX + 1 < 128, "the connections and the listener");

/*
 * A connection. The library's own limits let many that sit there keep others out: with too many it
 * accepts no more, and its time begins anew with each byte.
 */
struct peer {
    struct peer *prev, *next;
    int fd;
    uint64_t deadline;
};

struct http_server {
    const struct http_page *page;
    struct peer *peers; /* the oldest first */
    unsigned n_peers;
};

/* --- connections --- */

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *s = arg;
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct peer *p = *context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = p = malloc(sizeof(*p));
        if (!p) {
            shutdown(fd, SHUT_RDWR);
            return;
        }
        *p = (struct peer){.fd = fd, .deadline = clock_ns() + TIME_LIMIT};
        DL_APPEND(s->peers, p);
        s->n_peers++;
    } else if (p) {
        DL_DELETE(s->peers, p);
        s->n_peers--;
        free(p);
    }
}

/*
 * Ends what has had its time, and the oldest of too many: the library sees the end of the
 * connection, and closes it. Milliseconds until the next has had its time: -1, there is none.
 */
static int end_peers(struct http_server *s)
{
    unsigned too_many = s->n_peers > PEERS_MAX ? s->n_peers - PEERS_MAX : 0;
    uint64_t now = clock_ns();
    struct peer *p;

    DL_FOREACH (s->peers, p) {
        if (too_many == 0 && p->deadline > now)
            return (int)((p->deadline - now) / NSEC_PER_MSEC) + 1;
        shutdown(p->fd, SHUT_RDWR);
        too_many -= too_many > 0;
    }
    return -1;
}

/* --- requests --- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              char *body, size_t size)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result done;

    if (!r) {
        free(body);
        return MHD_NO;
    }
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    done = MHD_queue_response(connection, status, r);
    MHD_destroy_response(r);
    return done;
}

struct asked {
    const char *const *types;
    struct http_accept accept[2];
};

static enum MHD_Result read_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct asked *asked = arg;

    (void)kind;
    if (value && strcasecmp(name, MHD_HTTP_HEADER_ACCEPT) == 0)
        http_accept_read(value, asked->types, asked->accept);
    return MHD_YES;
}

static enum MHD_Result answer_page(struct MHD_Connection *connection, const struct http_page *page)
{
    struct asked asked = {.types = page->types};
    unsigned form;
    size_t size;
    char *body;

    MHD_get_connection_values(connection, MHD_HEADER_KIND, read_field, &asked);
    form = asked.accept[1].quality > asked.accept[0].quality;
    body = page->make(page->data, form, &size);
    return body ? answer(connection, MHD_HTTP_OK, page->types[form], body, size) : MHD_NO;
}

/* Called when the head is read, for each piece of a body, and at the end: only then is answered. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **context)
{
    const struct http_server *s = arg;

    (void)version;
    (void)upload;
    if (!*context || *upload_size > 0) {
        *context = connection;
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(path, s->page->path) != 0)
        return answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", NULL, 0);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", NULL, 0);
    return answer_page(connection, s->page);
}

/* --- the server --- */

static const char *socket_path; /* NULL: it has none */

static void on_signal(int number)
{
    (void)number;
    if (socket_path)
        unlink(socket_path);
    _exit(STATUS_OK);
}

enum status http_serve(const char *address, const struct http_page *page)
{
    struct http_server s = {.page = page};
    struct MHD_Daemon *daemon;
    enum status status;
    int listener;

    signal(SIGPIPE, SIG_IGN); /* the library demands it */
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    status = http_listen(address, &listener);
    if (status != STATUS_OK)
        return status;
    if (*address == '/')
        socket_path = address;
    daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, &s,
                              MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
                              FDS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
                              MHD_OPTION_NOTIFY_CONNECTION, on_connection, &s,
                              MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    while (daemon && MHD_run_wait(daemon, end_peers(&s)) == MHD_YES)
        continue;
    fprintf(stderr, "npuctl: cannot serve: %s\n", strerror(errno));
    return STATUS_ERROR;
}
