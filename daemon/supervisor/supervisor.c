#include "daemon/supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/supervisor_message.h"
#include "daemon/supervisor/again.h"
#include "daemon/supervisor/lease.h"
#include "proto/util/clock.h"

/* One thing at a time: each may change what there is to wait for. */
enum watched {
    ON_SIGNAL,
    ON_LEASE,
    ON_KEEPER,
    ON_SERVER,
    ON_STANDBY,
    ON_CANDIDATE,
    ON_SERVER_MESSAGE,
    ON_STANDBY_MESSAGE,
    ON_CANDIDATE_MESSAGE,
    N_WATCHED,
};

static void read_signal(struct supervisor *s)
{
    struct signalfd_siginfo info;

    if (read(s->signals, &info, sizeof(info)) == sizeof(info))
        on_signal(s, (int)info.ssi_signo);
}

/*
 * Ends come first: the next server is waited for. What an ended server has said last is of no use
 * any more, but for a standby's PREPARED, which its end makes void.
 */
static void handle(struct supervisor *s, enum watched what)
{
    switch (what) {
    case ON_SIGNAL:
        read_signal(s);
        break;
    case ON_LEASE:
        on_lease_lost(s);
        break;
    case ON_KEEPER:
        on_end(s, &s->keeper);
        break;
    case ON_SERVER:
        on_end(s, &s->server);
        break;
    case ON_STANDBY:
        on_end(s, &s->standby);
        break;
    case ON_CANDIDATE:
        on_end(s, &s->candidate);
        break;
    case ON_SERVER_MESSAGE:
        on_message(s, &s->server);
        break;
    case ON_STANDBY_MESSAGE:
        on_message(s, &s->standby);
        break;
    case ON_CANDIDATE_MESSAGE:
        on_message(s, &s->candidate);
        break;
    case N_WATCHED:
        break;
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* -1: nothing is to happen by itself. */
static int wait_ms(const struct supervisor *s)
{
    uint64_t now = clock_ns(), next = s->next_watchdog_ns;

    next = earlier(next, s->server.deadline_ns);
    next = earlier(next, s->standby.deadline_ns);
    next = earlier(next, s->candidate.deadline_ns);
    next = earlier(next, s->standby_at_ns);
    next = earlier(next, s->keeper_at_ns);
    if (next == 0)
        return -1;
    return next <= now ? 0 : (int)((next - now) / NSEC_PER_MSEC) + 1;
}

/* True: now; and not again. */
static bool is_due(uint64_t *at_ns, uint64_t now)
{
    if (*at_ns == 0 || *at_ns > now)
        return false;
    *at_ns = 0;
    return true;
}

static void handle_times(struct supervisor *s)
{
    struct child *const children[] = {&s->server, &s->standby, &s->candidate};
    uint64_t now = clock_ns();

    for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++)
        if (children[i]->deadline_ns != 0 && children[i]->deadline_ns <= now)
            on_deadline(children[i]);
    if (s->next_watchdog_ns != 0 && s->next_watchdog_ns <= now)
        on_watchdog(s);
    is_due(&s->standby_at_ns, now); /* supervisor_advance() */
    if (is_due(&s->keeper_at_ns, now))
        supervisor_open_lease(s);
}

static void wait_and_handle(struct supervisor *s)
{
    struct pollfd p[N_WATCHED] = {
        [ON_SIGNAL] = {s->signals, POLLIN, 0},
        [ON_LEASE] = {s->lease, 0, 0}, /* its hang-up */
        [ON_KEEPER] = {s->keeper.pidfd, POLLIN, 0},
        [ON_SERVER] = {s->server.pidfd, POLLIN, 0},
        [ON_STANDBY] = {s->standby.pidfd, POLLIN, 0},
        [ON_CANDIDATE] = {s->candidate.pidfd, POLLIN, 0},
        [ON_SERVER_MESSAGE] = {s->server.socket, POLLIN, 0},
        [ON_STANDBY_MESSAGE] = {s->standby.socket, POLLIN, 0},
        [ON_CANDIDATE_MESSAGE] = {s->candidate.socket, POLLIN, 0},
    };
    int n = poll(p, N_WATCHED, wait_ms(s));

    for (int i = 0; i < N_WATCHED && n > 0; i++) {
        if (p[i].revents == 0)
            continue;
        handle(s, (enum watched)i);
        break;
    }
    handle_times(s);
}

static void give_lease(const struct supervisor *s, struct child *child)
{
    if (child->socket >= 0 && supervisor_message_send(child->socket, SUPERVISOR_LEASE,
                                                      s->lease_number, NULL, &s->lease, 1) == 0)
        child->lease = s->lease_number;
}

/* Without a keeper npud serves, and its server's end is that of all sessions. */
void supervisor_open_lease(struct supervisor *s)
{
    if (s->lease >= 0)
        return;
    s->lease = lease_open(&s->keeper, s->keeper_path, s->fd_store);
    if (s->lease < 0) {
        s->lease = -1;
        if (!attempts_failed(&s->keepers, clock_ns()))
            s->keeper_at_ns = clock_ns() + SUPERVISOR_PAUSE_NS;
        log_error("npud has no keeper: the end of its server would be that of all sessions");
        return;
    }
    s->keeper_at_ns = 0;
    if (s->fd_store)
        fd_store_put("lease", s->lease);
    if (++s->lease_number == 0)
        s->lease_number = 1;
    give_lease(s, &s->server);
    give_lease(s, &s->standby);
    give_lease(s, &s->candidate);
}

static void end_children(struct supervisor *s)
{
    child_discard(&s->standby);
    child_discard(&s->candidate);
    if (s->lease >= 0)
        close(s->lease);
    if (s->keeper.pidfd < 0)
        return;
    /* Of our own: it ends with the lease. A server that lives on, as a service, has a copy. */
    if (s->server.state == CHILD_NONE)
        child_reap(&s->keeper);
}

/* Of the sockets that systemd listens at, too: a client that waited on would start npud again at
 * once, and again. Its library tries a few times, and then says so. */
static void hang_up_waiting(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    int fd;

    while (listener >= 0 && poll(&p, 1, 0) == 1) {
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        close(fd);
    }
}

void supervisor_step(struct supervisor *s)
{
    wait_and_handle(s);
    supervisor_advance(s);
}

int supervisor_run(struct supervisor *s)
{
    supervisor_open_lease(s);
    supervisor_advance(s);
    while (!s->over) {
        supervisor_step(s);
        if (s->again)
            supervisor_execute_again(s);
    }
    if (s->status != 0) {
        hang_up_waiting(s->control);
        hang_up_waiting(s->admin);
    }
    end_children(s);
    return s->status;
}
