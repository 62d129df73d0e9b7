#include "daemon/control/arrival.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <utlist.h>

#include "daemon/base/client_socket.h"
#include "daemon/base/deferred_close.h"
#include "daemon/control/session_life.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

struct arrival {
    int socket;
    struct client_process process;
    struct arrival *prev, *next; /* arrivals->list, the oldest first */
};

/* Those of a user, while there are any. */
struct arrivals {
    struct server *server;
    struct user *user; /* a reference */
    struct arrival *list;
    struct charge charge, charge_fds;
    struct job job;
};

/* It has closed its end already, and has sent nothing. */
static bool has_hung_up(int socket)
{
    struct pollfd p = {.fd = socket};
    int bytes = 0;

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) && ioctl(socket, SIOCINQ, &bytes) == 0 &&
           bytes == 0;
}

static struct arrival take_first(struct arrivals *a)
{
    struct arrival first = *a->list, *place = a->list;

    DL_DELETE(a->list, place);
    free(place);
    user_uncharge_part(&a->charge, 1);
    user_uncharge_part(&a->charge_fds, 2);
    return first;
}

static void close_arrival(const struct user *user, const struct arrival *arrival)
{
    close(arrival->process.pidfd);
    deferred_close_socket(user, arrival->socket, client_socket_refuse_fds(arrival->socket));
}

static void free_empty(struct arrivals *a)
{
    a->user->arrivals = NULL;
    job_cancel(&a->job);
    user_unref(a->user);
    free(a);
}

static bool run_arrivals(struct job *job)
{
    struct arrivals *a = (struct arrivals *)((char *)job - offsetof(struct arrivals, job));

    while (a->list) {
        struct arrival first = take_first(a);

        if (has_hung_up(first.socket))
            close_arrival(a->user->payer, &first);
        else
            session_new_for(a->server, first.socket, &first.process);
        if (schedule_step_over(&a->server->schedule) && a->list)
            return true;
    }
    free_empty(a);
    return false;
}

static struct arrivals *arrivals_of(struct server *server, uid_t uid)
{
    struct user *user = user_ref(&server->users, uid);
    struct arrivals *a = user ? user->arrivals : NULL;

    if (user && !a)
        a = calloc(1, sizeof(*a));
    if (!a || a->user) {
        user_unref(user);
        return a;
    }
    a->server = server;
    a->user = user;
    a->job = (struct job){run_arrivals, "connect", &user->payer->schedule.leftovers};
    user->arrivals = a;
    return a;
}

/* False: the user may not have it, or npud lacks memory. */
static bool add_arrival(struct arrivals *a, int socket, const struct client_process *process)
{
    struct arrival *arrival;

    if (user_charge_more(&a->charge, a->user, RESOURCE_SESSIONS, 1) < 0)
        return false;
    arrival = calloc(1, sizeof(*arrival));
    if (!arrival || user_charge_more(&a->charge_fds, a->user, RESOURCE_FDS, 2) < 0) {
        user_uncharge_part(&a->charge, 1);
        free(arrival);
        return false;
    }
    arrival->socket = socket;
    arrival->process = *process;
    DL_APPEND(a->list, arrival);
    job_list(&a->job);
    return true;
}

/* What cannot wait is made a session now, or refused with the reason. */
void arrival_take(struct server *server, int socket)
{
    struct client_process process = {.pidfd = -1};
    struct arrivals *a;

    if (!session_identify(server, socket, &process))
        return;
    a = arrivals_of(server, process.uid);
    if (a && add_arrival(a, socket, &process))
        return;
    if (a && !a->list)
        free_empty(a);
    session_new_for(server, socket, &process);
}

static struct arrivals *any_arrivals(const struct server *server)
{
    for (struct user *user = server->users.by_uid; user; user = user->hh.next)
        if (user->arrivals)
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that has gone is out of the table */
            return user->arrivals;
    return NULL;
}

/* From the first user on each time: one may go with its arrivals, and its payer with it. */
void arrivals_deinit(struct server *server)
{
    struct arrivals *a;

    while ((a = any_arrivals(server)) != NULL) {
        while (a->list) {
            struct arrival first = take_first(a);

            close_arrival(NULL, &first);
        }
        free_empty(a);
    }
}
