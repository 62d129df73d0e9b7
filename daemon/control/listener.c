#include "daemon/control/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/client_socket.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/socket_file.h"
#include "daemon/control/dispatch.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"

static bool hold_place(struct listener *l)
{
    if (l->place < 0)
        l->place = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return l->place >= 0;
}

bool listener_give_place(struct listener *l)
{
    if (!l->server || l->place < 0)
        return false;
    close(l->place);
    l->place = -1;
    return true;
}

/* -1 with errno. */
static int take_client(struct listener *l)
{
    return hold_place(l) ? accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
}

static bool lacks_something(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static void refuse_client(struct listener *l)
{
    char text[256];
    int32_t error;
    int s;

    if (!l->exhausted)
        log_event(MESSAGE_FDS_EXHAUSTED, LOG_ERR, NULL,
                  "out of file descriptors: new clients are refused until others leave");
    l->exhausted = true;
    close(l->reserve);
    s = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s >= 0) {
        refuse_count(CAUSE_DESCRIPTORS);
        error = refuse_text(text, sizeof(text), CAUSE_DESCRIPTORS, NULL, "no session");
        dispatch_refuse(NULL, s, error, text);
        deferred_close_socket(NULL, s, client_socket_refuse_fds(s));
    }
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* The socket of a client, or -1. */
static int take_or_search(struct listener *l)
{
    struct server *server = l->server;
    bool refuse = l->found_none;
    int s;

    l->found_none = false;
    l->closed = deferred_close_count();
    s = take_client(l);
    if (s < 0 && errno == EMFILE && l->may_use_spare && spare_fds_give_up(&server->spare))
        s = take_client(l);
    if (s >= 0 || !lacks_something(errno)) { /* else it has gone again, or a signal came */
        l->wait = (struct room_wait){0};
    } else if (refuse) {
        refuse_client(l);
    } else {
        event_del(l->on_client);
        job_list(&l->search);
    }
    return s;
}

/*
 * systemd makes the sockets that it passes blocking at each start of the unit, unless the unit says
 * NonBlocking=yes, and an npud of before shares that flag: it is asked, and not believed.
 */
bool listener_has_client(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    int s;

    (void)fd;
    (void)what;
    schedule_begin(&l->server->schedule);
    spare_fds_fill(&l->server->spare);
    do {
        s = take_or_search(l);
        if (s >= 0 && l->takes_many)
            l->accept(l->server, s);
    } while (s >= 0 && l->takes_many && !schedule_step_over(&l->server->schedule) &&
             listener_has_client(l->fd));
    schedule_end(&l->server->schedule, "accept", geteuid());
    if (s >= 0 && !l->takes_many)
        l->accept(l->server, s);
}

/* A step of the search. After each the client is tried again. */
static bool run_search(struct job *job)
{
    struct listener *l = (struct listener *)((char *)job - offsetof(struct listener, search));

    switch (room_try_again(l->server, &l->wait, NULL, NULL, l->closed)) {
    case TRY_WOKEN:
        l->asleep = true;
        return false;
    case TRY_NEVER:
        l->found_none = true;
        l->wait = (struct room_wait){0};
        break;
    default:
        break;
    }
    return event_add(l->on_client, NULL) < 0;
}

void listener_wake(struct listener *l)
{
    if (!l->asleep)
        return;
    l->asleep = false;
    if (event_add(l->on_client, NULL) < 0)
        job_list(&l->search);
}

int listener_init(struct listener *l, struct server *server, int fd,
                  void (*accept)(struct server *server, int socket))
{
    client_socket_refuse_fds(fd); /* accepted sockets begin with the listener's setting */
    *l = (struct listener){.server = server,
                           .takes_many = l->takes_many,
                           .fd = fd,
                           .reserve = -1,
                           .place = -1,
                           .search = {run_search, "room for a client", &server->schedule.own},
                           .accept = accept};
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* systemd may have made a longer queue. What does not listen here is no socket: tests. */
    (void)listen(fd, SOCKET_BACKLOG);
    l->on_client = event_new(server->base, fd, EV_READ | EV_PERSIST, on_client, l);
    if (l->reserve < 0 || !hold_place(l) || !l->on_client || event_add(l->on_client, NULL) < 0) {
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
    job_cancel(&l->search);
    if (l->reserve >= 0)
        close(l->reserve);
    if (l->place >= 0)
        close(l->place);
    close(l->fd);
    *l = (struct listener){0};
}
