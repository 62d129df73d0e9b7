#include "daemon/control/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/client_socket.h"
#include "daemon/base/log.h"
#include "daemon/buffers/pool.h"
#include "daemon/control/dispatch.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"

/* npud has no descriptor left: some of what it keeps is given back for a client. */
static bool find_descriptor(struct listener *l)
{
    struct server *server = l->server;

    return pools_make_room(server->pools, NULL) ||
           (l->may_use_spare && spare_fds_give_up(&server->spare));
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    char text[256];
    int32_t error;
    int s;

    (void)what;
    schedule_begin(&l->server->schedule);
    spare_fds_fill(&l->server->spare);
    s = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0 && errno == EMFILE && find_descriptor(l))
        s = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s >= 0) {
        schedule_end(&l->server->schedule, "accept", geteuid());
        l->accept(l->server, s);
        return;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
        return; /* the client has gone again, or a signal came */
    if (!l->exhausted)
        log_error("out of file descriptors: new clients are refused until others leave");
    l->exhausted = true;
    close(l->reserve);
    s = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s >= 0) {
        error = refuse_text(text, sizeof(text), CAUSE_DESCRIPTORS, NULL, "no session");
        dispatch_refuse(s, error, text);
        client_socket_close(s, client_socket_refuse_fds(s));
    }
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    schedule_end(&l->server->schedule, "accept", geteuid());
}

int listener_init(struct listener *l, struct server *server, int fd,
                  void (*accept)(struct server *server, int socket))
{
    client_socket_refuse_fds(fd); /* accepted sockets begin with the listener's setting */
    *l = (struct listener){.server = server, .fd = fd, .reserve = -1, .accept = accept};
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->on_client = event_new(server->base, fd, EV_READ | EV_PERSIST, on_client, l);
    if (l->reserve < 0 || !l->on_client || event_add(l->on_client, NULL) < 0) {
        listener_deinit(l);
        return -ENOMEM;
    }
    return 0;
}

void listener_deinit(struct listener *l)
{
    if (!l->server)
        return;
    if (l->on_client)
        event_free(l->on_client);
    if (l->reserve >= 0)
        close(l->reserve);
    close(l->fd);
    *l = (struct listener){0};
}
