/* Servers: how they begin, and when which one serves. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/supervisor_message.h"
#include "daemon/supervisor/supervisor.h"
#include "proto/util/clock.h"

/* Against hanging: both take milliseconds. */
#define PREPARE_GUARD_NS (60 * NSEC_PER_SEC)
#define RECOVER_GUARD_NS (120 * NSEC_PER_SEC)

static int send_start(const struct supervisor *s, struct child *child)
{
    const int have[SUPERVISOR_FDS] = {s->lease, child->life_end, s->control, s->admin};
    int fds[SUPERVISOR_FDS];
    uint32_t which = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < SUPERVISOR_FDS; i++) {
        if (have[i] < 0)
            continue;
        which |= 1u << i;
        fds[n++] = have[i];
    }
    return supervisor_message_send(child->socket, SUPERVISOR_START, which, NULL, fds, n);
}

static int life_new(struct child *child)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    child->life = pair[0];
    child->life_end = pair[1];
    return 0;
}

int server_start(struct supervisor *s, struct child *child, struct executable *program, bool ask)
{
    int r;

    s->server_argv[2] = ask ? "--can-read" : "--server"; /* which [1] says already */
    r = child_start(child, program, s->server_argv);
    if (r < 0)
        return r;
    r = life_new(child);
    if (r == 0)
        r = send_start(s, child);
    if (r == -EPIPE || r == -ECONNRESET)
        r = 0; /* it has been killed already: its pidfd has the rest */
    if (r < 0) {
        log_error("a server cannot be started: %s", strerror(-r));
        child_discard(child);
        return r;
    }
    close(child->life_end);
    child->life_end = -1;
    child->can_read = !ask;
    child->deadline_ns = clock_ns() + PREPARE_GUARD_NS;
    return 0;
}

void server_let_go(struct supervisor *s)
{
    s->server = s->standby;
    s->standby = CHILD_NULL;
    if (s->fd_store) {
        /* Before it goes: a supervisor that did not know of it would start another beside it. */
        fd_store_put("server", s->server.pidfd);
        fd_store_put("life", s->server.life);
    }
    supervisor_message_send(s->server.socket, SUPERVISOR_GO, s->cause, NULL, NULL, 0);
    if (s->end_signal)
        supervisor_message_send(s->server.socket, SUPERVISOR_END, (uint32_t)s->end_signal, NULL,
                                NULL, 0);
    s->server.state = CHILD_GOING;
    s->server.deadline_ns = clock_ns() + RECOVER_GUARD_NS;
    s->replace = false;
}

static bool may_go(const struct child *child)
{
    return child->state == CHILD_PREPARED || child->state == CHILD_CANNOT;
}

static void start_standby(struct supervisor *s)
{
    if (s->standby_at_ns != 0 || server_start(s, &s->standby, s->program, false) == 0)
        return;
    /* Processes, descriptors or memory may be short for a moment. */
    s->standby_at_ns = clock_ns() + SUPERVISOR_PAUSE_NS;
    on_standby_failed(s, 1);
}

/* A server that was killed while npud ends has left its sockets, and sessions that wait. */
static void advance_to_end(struct supervisor *s)
{
    if (s->server.state != CHILD_NONE)
        return;
    if (s->cause == SUPERVISOR_FIRST)
        s->over = true; /* none was let go */
    else if (may_go(&s->standby))
        server_let_go(s);
    else if (s->standby.state == CHILD_NONE)
        start_standby(s);
}

/* Until then its death would be that of its sessions. */
static bool is_kept(const struct supervisor *s)
{
    return s->lease >= 0 && s->server.kept == s->server.lease;
}

void supervisor_advance(struct supervisor *s)
{
    bool serving = s->server.state == CHILD_SERVING;

    if (s->over)
        return;
    if (s->end_signal) {
        advance_to_end(s);
        return;
    }
    if (s->server.state == CHILD_NONE && may_go(&s->standby))
        server_let_go(s);
    else if (serving && s->replace && s->standby.state == CHILD_PREPARED && is_kept(s))
        child_kill(&s->server);
    /* While a server recovers it has all processors. */
    if (s->standby.state == CHILD_NONE &&
        (s->server.state == CHILD_NONE || (serving && !s->no_standby)))
        start_standby(s);
}
