#include "daemon/server_role.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fence.h"
#include "daemon/base/keeper_link.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/options.h"
#include "daemon/base/own_program.h"
#include "daemon/core/server.h"
#include "daemon/entrance.h"
#include "daemon/kept/blame.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"

static struct {
    int socket; /* to the supervisor; -1: there is none */
    int life;
    bool on;
    uint32_t cause;
    uint32_t lease; /* the number of the latest; 0: that of START */
    struct server_role_calls calls;
    struct event *on_message, *on_life;
} role = {.socket = -1, .life = -1};

/* --- becoming the supervisor --- */

int server_role_exec_supervisor(const struct options *options)
{
    char self[PATH_MAX], path[PATH_MAX];
    char **argv = calloc((size_t)options->argc + 2, sizeof(char *));
    int r = argv ? own_program_path(self, NULL) : -ENOMEM;

    if (r == 0)
        r = own_program_find(path, sizeof(path), "npud-supervisor", "NPUD_SUPERVISOR");
    if (r == 0) {
        argv[0] = "npud-supervisor";
        argv[1] = self;
        memcpy(argv + 2, options->argv + 1, (size_t)options->argc * sizeof(char *));
        execv(path, argv);
        r = -errno;
    }
    free(argv);
    log_error("npud-supervisor, which --restartable needs, cannot be started: %s (it is installed "
              "with npud; NPUD_SUPERVISOR is its path)",
              strerror(-r));
    return r;
}

/* --- waiting --- */

/* To the one that has started it, or to the next one: also to one that is still to come. */
static void tell(enum supervisor_operation operation, uint32_t value, const char *text)
{
    int to = role.socket >= 0 ? role.socket : role.life;

    if (to >= 0)
        supervisor_message_send(to, operation, value, text, NULL, 0);
}

static int take_start(const struct supervisor_message *m, const int *fds, size_t n)
{
    int have[SUPERVISOR_FDS] = {-1, -1, -1, -1};
    size_t at = 0;

    for (uint32_t i = 0; i < SUPERVISOR_FDS; i++)
        if ((m->value & 1u << i) && at < n)
            have[i] = fds[at++];
    while (at < n)
        close(fds[--n]); /* of a later supervisor */
    role.life = have[1];
    entrance_pass(have[2], have[3]);
    return keeper_link_open(have[0]);
}

static int receive(int socket, struct supervisor_message *m, int *fds, size_t *n, int flags)
{
    return supervisor_message_receive(socket, m, fds, SUPERVISOR_FDS, n, flags);
}

/* The server whose tables they are goes on meanwhile. */
static void tell_can_read(void)
{
    char why[256] = "the keeper does not have them";
    bool can = false;
    int tables;

    if (keeper_peek(KEEPER_KEY_TABLES, &tables) == 0) {
        can = kept_can_read(tables, why, sizeof(why));
        close(tables);
    }
    tell(SUPERVISOR_CAN_READ, can, can ? NULL : why);
}

int server_role_begin(const struct options *options)
{
    struct supervisor_message m;
    int fds[SUPERVISOR_FDS], r;
    size_t n;

    if (!options->server)
        return 0;
    prctl(PR_SET_NAME, "npud-standby"); /* executed by its descriptor, it has the number's name */
    role.on = true;
    role.socket = options->supervisor_fd;
    r = receive(role.socket, &m, fds, &n, MSG_CMSG_CLOEXEC);
    if (r == 1 && m.operation == SUPERVISOR_START)
        r = take_start(&m, fds, n);
    else
        r = r < 0 ? r : -EPROTO;
    if (r < 0)
        log_error("npud --server was not started by npud-supervisor: %s", strerror(-r));
    else if (options->can_read)
        tell_can_read();
    return r;
}

static void take_lease(const struct supervisor_message *m, const int *fds, size_t n,
                       int (*adopt)(int fd))
{
    int r = n > 0 ? adopt(fds[0]) : -EPROTO;

    role.lease = m->value;
    if (r < 0)
        log_error("the new keeper does not take what npud gives it");
    else
        tell(SUPERVISOR_KEPT, role.lease, NULL);
}

/*
 * A keeper that was killed a moment ago, or that hangs, still has its end of the lease: only an
 * answer shows that it lives. The supervisor is to know before it hears PREPARED, because then it
 * may kill the server that serves, whose descriptors no other process would have.
 */
static void check_keeper(void)
{
    int tables, r = keeper_peek(KEEPER_KEY_TABLES, &tables);

    if (r == 0)
        close(tables);
    else if (r != -ENOENT)
        tell(SUPERVISOR_LOST, role.lease, NULL);
}

/* A store of the old server after this would be one into the state of this one. */
static int wait_for_old_server(void)
{
    int tables, lock, r = keeper_peek(KEEPER_KEY_TABLES, &tables);

    if (r == -ENOENT)
        return 0; /* there is none */
    if (r < 0) {
        log_error("the keeper does not say whether there was a server before this one: %s",
                  strerror(-r));
        return r;
    }
    lock = fence_take(tables);
    close(tables);
    if (lock >= 0)
        return 0; /* held to the end */
    log_error("the server before this one cannot be waited for: %s", strerror(-lock));
    return lock;
}

int server_role_await_go(bool can_serve)
{
    struct supervisor_message m = {.operation = 0};
    int fds[SUPERVISOR_FDS], r;
    size_t n;

    if (!role.on)
        return 1;
    check_keeper();
    tell(can_serve ? SUPERVISOR_PREPARED : SUPERVISOR_CANNOT, 0, NULL);
    while (m.operation != SUPERVISOR_GO) {
        r = receive(role.socket, &m, fds, &n, 0);
        if (r < 0)
            log_error("the supervisor cannot be heard: %s", strerror(-r));
        if (r <= 0)
            return r;
        if (m.operation == SUPERVISOR_LEASE)
            take_lease(&m, fds, n, keeper_link_open);
        else
            while (n > 0)
                close(fds[--n]);
    }
    role.cause = m.value;
    prctl(PR_SET_NAME, "npud");
    r = wait_for_old_server();
    return r < 0 ? r : 1;
}

bool server_role_is_next(void)
{
    return role.on && role.cause != SUPERVISOR_FIRST;
}

/* --- what the server before has left --- */

static enum blame_end blame_end_of(uint32_t cause)
{
    switch (cause & ~(uint32_t)SUPERVISOR_CLEAN) {
    case SUPERVISOR_CRASHED:
        return BLAME_CRASHED;
    case SUPERVISOR_HUNG:
        return BLAME_HUNG;
    default:
        return BLAME_KILLED;
    }
}

/* Nothing of it is used: its sessions end. */
static int start_anew(void)
{
    int r = kept_begin(), lock;

    kept_fds_forget_rest();
    if (r < 0) {
        log_error("no memory for npud's tables: %s", strerror(-r));
        return r;
    }
    blame_begin(BLAME_KILLED);
    lock = fence_take(kept_file());
    if (lock >= 0)
        return 0; /* held to the end */
    log_error("npud's tables cannot be locked: %s", strerror(-lock));
    return lock;
}

static bool may_restore(void)
{
    return server_role_is_next() && !(role.cause & SUPERVISOR_CLEAN);
}

int server_role_begin_tables(bool *restore)
{
    int tables, r;

    *restore = false;
    if (!role.on)
        return 0;
    KILL_HERE(RECOVERY_BEGINS);
    r = kept_fds_fetch();
    if (r < 0) {
        log_error("the descriptors of the npud before cannot be fetched from the keeper: %s",
                  strerror(-r));
        return r;
    }
    KILL_HERE(FDS_FETCHED);
    if (!may_restore())
        return start_anew();
    tables = kept_fd_take(KEEPER_KEY_TABLES);
    if (tables < 0) {
        log_event(MESSAGE_SESSIONS_LOST, LOG_ERR, NULL,
                  "the keeper does not have the tables of the npud before: if sessions were "
                  "connected, they end");
        return start_anew();
    }
    r = kept_begin_from(tables);
    if (r == -EINVAL) {
        log_event(MESSAGE_SESSIONS_LOST, LOG_ERR, NULL,
                  "sessions of the npud before end: its tables cannot be read");
        return start_anew();
    }
    if (r == 0)
        blame_begin(blame_end_of(role.cause));
    *restore = r == 0;
    return r;
}

/* --- serving --- */

static void on_lost(void *arg)
{
    (void)arg;
    log_event(MESSAGE_KEEPER_ENDED, LOG_WARNING, NULL, "the keeper has ended: waiting for another");
    tell(SUPERVISOR_LOST, role.lease, NULL);
}

static void handle(const struct supervisor_message *m, const int *fds, size_t n)
{
    switch (m->operation) {
    case SUPERVISOR_LEASE:
        role.calls.keeper_follows(role.calls.arg);
        take_lease(m, fds, n, keeper_link_replace);
        return;
    case SUPERVISOR_RELOAD:
        role.calls.reload(role.calls.arg);
        break;
    case SUPERVISOR_END:
        role.calls.end(role.calls.arg, strsignal((int)m->value));
        break;
    case SUPERVISOR_PING:
        if (role.calls.is_alive(role.calls.arg))
            tell(SUPERVISOR_ALIVE, 0, NULL);
        break;
    case SUPERVISOR_REFUSED:
        role.calls.upgrade_refused(role.calls.arg, m->text);
        break;
    default:
        break;
    }
    while (n > 0)
        close(fds[--n]);
}

/* Is there, or may there be, a process at the other end? */
static bool hear(int socket)
{
    struct supervisor_message m;
    int fds[SUPERVISOR_FDS];
    size_t n;
    int r = receive(socket, &m, fds, &n, MSG_DONTWAIT);

    if (r == 1)
        handle(&m, fds, n);
    return r == 1 || r == -EAGAIN;
}

static void on_message(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    if (hear(role.socket))
        return;
    /* The next supervisor replaces this server; that there is none, the life line says. */
    event_del(role.on_message);
    close(role.socket);
    role.socket = -1;
}

static void on_life(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    if (hear(role.life))
        return;
    event_del(role.on_life);
    role.calls.end(role.calls.arg, "no supervisor is left");
}

static struct event *listen_to(struct server *server, int fd, event_callback_fn fn)
{
    struct event *e = event_new(server->base, fd, EV_READ | EV_PERSIST, fn, NULL);

    return e && event_add(e, NULL) == 0 ? e : NULL;
}

int server_role_attach(struct server *server, const struct server_role_calls *calls)
{
    if (!role.on)
        return 0;
    role.calls = *calls;
    keeper_link_on_lost(on_lost, NULL);
    role.on_message = listen_to(server, role.socket, on_message);
    role.on_life = listen_to(server, role.life, on_life);
    if (role.on_message && role.on_life)
        return 0;
    log_error("npud cannot listen to its supervisor: no memory");
    return -ENOMEM;
}

void server_role_tell_serving(void)
{
    tell(SUPERVISOR_SERVING, 0, NULL);
}

bool server_role_request_upgrade(void)
{
    if (role.socket < 0)
        return false;
    tell(SUPERVISOR_UPGRADE, 0, NULL);
    return true;
}
