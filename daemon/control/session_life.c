#include "daemon/control/session_life.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/client_socket.h"
#include "daemon/base/config.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/buffers/buffers.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/control/answer.h"
#include "daemon/control/arrival.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/batch_job_lookup.h"
#include "daemon/control/listener.h"
#include "daemon/control/rest.h"
#include "daemon/control/session_hear.h"
#include "daemon/core/device.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/survivor.h"
#include "daemon/kept/fds.h"
#include "daemon/memory/allocation.h"
#include "proto/shm/arena.h"
#include "proto/shm/mbuf_shm.h"
#include "proto/util/clock.h"
#include "proto/util/random.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define DEATH_US 10000 /* how long a process may take from closing its socket to its end */
/*
 * How often the loop may tell of a request that waits for its turn: as much as it costs to stop
 * polling the socket, and to begin again. Not the same for all, so that a crowd that comes at once
 * does not stop to be polled at once.
 */
#define REPORTS_MIN    4
#define REPORTS_SPREAD 16

/* --- begin --- */

static void stop_polling(struct session *session)
{
    event_del(session->on_socket);
    session->polled = false;
}

/*
 * The socket is told of in each round of the loop until it is read. So that a thousand sessions
 * that wait for their turn cost the loop nothing, npud stops polling the sockets of those that wait
 * long, and polls them again when they have nothing to read.
 */
static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    struct session *session = arg;

    (void)fd;
    (void)what;
    if (!session->serve.listed) {
        session->reported = 0;
        job_list(&session->serve);
    } else if (++session->reported == REPORTS_MIN + session->id % REPORTS_SPREAD) {
        stop_polling(session);
    }
}

void session_hear_no_more(struct session *session)
{
    job_cancel(&session->serve);
    stop_polling(session);
}

void session_hear_again(struct session *session)
{
    /* A session that is restored before Hello can wait for both: the later one has it heard. */
    if (session->lookup || session->answer || session->resting)
        return;
    if (session->state == SESSION_CONNECTED || session->state == SESSION_OPEN)
        job_list(&session->serve);
}

static bool poll_socket(struct session *session)
{
    session->polled = event_add(session->on_socket, NULL) == 0;
    return session->polled;
}

static bool find_descriptors(struct session *session);

static bool run_serve(struct job *job)
{
    struct session *session = (struct session *)((char *)job - offsetof(struct session, serve));
    enum dispatched r;

    if (rest_takes(session))
        return false;
    session->server->schedule.session = session->id;
    if (!session->charge_fds.user)
        return find_descriptors(session);
    r = dispatch_handle(session);
    if (r == DISPATCH_HANDLED && session->answer)
        return false;
    if (r == DISPATCH_SLEEPS) {
        stop_polling(session);
        return false;
    }
    /* Without memory to poll the socket, it stays listed. */
    return r == DISPATCH_WAITS || (r == DISPATCH_HANDLED && !session->polled) ||
           (r == DISPATCH_NONE && !session->polled && !poll_socket(session));
}

void session_note_death(struct session *session)
{
    if (session->state != SESSION_OPEN || session->left || session->died)
        return;
    session->died = true;
    session->server->deaths++;
    log_event(MESSAGE_SESSION_DIED, LOG_DEBUG, &session->log, "%s has died", session->program);
}

/*
 * A forked child may still hold the socket open: the process of the session is gone all the same.
 * Told once: a pidfd stays readable, and a thousand that wait for their end would be told of in
 * each round of the loop.
 */
static void on_death(evutil_socket_t fd, short what, void *arg)
{
    struct session *session = arg;

    (void)fd;
    (void)what;
    session_note_death(session);
    event_del(session->on_death);
    job_list(&session->end);
}

static bool run_end(struct job *job);

/* Takes the process of the client from the kernel, once. A pid that was reused since the connect is
 * not taken for it: the session fails then. */
static int identify_peer(int socket, struct client_process *process)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    process->pid = cred.pid;
    process->uid = cred.uid;
    len = sizeof(process->pidfd);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process->pidfd, &len) < 0) {
        if (errno != ENOPROTOOPT)
            return -errno; /* dead already */
        /*
         * Before Linux 6.5. If the peer died and its pid was given to another process already, npud
         * would watch the wrong one. The end of the socket tells npud of the peer's death as well,
         * unless a forked child of it keeps the socket.
         */
        process->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
        if (process->pidfd < 0)
            return -errno;
    }
    return 0;
}

/*
 * Replies that a client does not read are kernel memory, and the default is 200 KiB of them for
 * each of thousands of sessions.
 */
#define UNREAD_MAX PACKET_MAX /* bytes; the kernel doubles it, for its own books */

static void bound_unread_replies(struct session *session)
{
    int size = UNREAD_MAX;

    setsockopt(session->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static int watch_client(struct session *session)
{
    struct event_base *base = session->server->base;

    session->on_socket = event_new(base, session->socket, EV_READ | EV_PERSIST, on_socket, session);
    session->on_death = event_new(base, session->pidfd, EV_READ | EV_PERSIST, on_death, session);
    if (!session->on_socket || !session->on_death || !poll_socket(session) ||
        event_add(session->on_death, NULL) < 0)
        return -ENOMEM;
    return 0;
}

static enum cause charge_descriptors(struct session *session)
{
    return user_charge(&session->charge_fds, session->user, RESOURCE_FDS, 2) < 0
               ? CAUSE_USER_SESSION_DESCRIPTORS
               : CAUSE_NONE;
}

static void set_jobs(struct session *session)
{
    session->owner.user = &session->user->payer->schedule;
    session->serve = (struct job){run_serve, "request", &session->owner};
    /* Sessions that live do not stand behind each of a thousand that end. */
    session->end = (struct job){run_end, "session end", &session->owner.user->leftovers};
}

/* Watch the process, and charge its user. */
static enum cause admit_client(struct session *session)
{
    int r = watch_client(session);

    if (r < 0)
        return cause_of_errno(r);
    if (!peer_give_id(session))
        return CAUSE_SESSION_NUMBERS;
    session->user = user_ref(&session->server->users, session->uid);
    if (!session->user)
        return CAUSE_MEMORY;
    set_jobs(session);
    if (!session_keep(session))
        return CAUSE_MEMORY;
    if (user_charge(&session->charge, session->user, RESOURCE_SESSIONS, 1) < 0)
        return CAUSE_USER_SESSIONS;
    return charge_descriptors(session);
}

/* Logged once per user. session: as far as it has come, or NULL. */
static void refuse_client(struct session *session, int socket, enum cause cause)
{
    struct user *user = session ? session->user : NULL;
    char text[256];
    int32_t error = refuse_text(text, sizeof(text), cause, user, "no session");

    refuse_count(cause);
    if (user && !user->refused) {
        log_client_limit(&session->log, "refused: %s", text);
        user->refused = true;
    }
    dispatch_refuse(session ? session_payer(session) : NULL, socket, error, text);
}

/*
 * The user of a new session has no descriptors left for it: the session waits, and is heard when
 * some were found that are free. Until then its two descriptors are not charged (which is how
 * run_serve() knows it), for as long as that takes. What it keeps meanwhile has no request, but how
 * far the search is. Without memory to wait it is refused.
 */
static bool wait_for_descriptors(struct session *session)
{
    if (!request_hold(session, NULL, &(struct room_wait){0}))
        return false;
    stop_polling(session);
    job_list(&session->serve);
    return true;
}

/* A step of that. True: to be continued. */
static bool find_descriptors(struct session *session)
{
    enum cause cause = charge_descriptors(session);

    if (cause == CAUSE_NONE) {
        request_release(session);
        return !poll_socket(session);
    }
    if (room_try_again(session->server, &session->held->wait, NULL, session->user->payer, 0) !=
        TRY_NEVER)
        return true;
    refuse_client(session, session->socket, cause);
    session_end(session);
    return false;
}

bool session_identify(struct server *server, int socket, struct client_process *process)
{
    int r = identify_peer(socket, process);

    if (r == -EMFILE && listener_give_place(server->clients))
        r = identify_peer(socket, process);
    if (r == 0)
        return true;
    /* A process that has ended already does not read why. */
    refuse_client(NULL, socket, cause_of_errno(r));
    deferred_close_socket(NULL, socket, client_socket_refuse_fds(socket));
    server->clients->exhausted = false; /* as in session_free() */
    return false;
}

struct session *session_new(struct server *server, int socket)
{
    struct client_process process = {.pidfd = -1};

    return session_identify(server, socket, &process) ? session_new_for(server, socket, &process)
                                                      : NULL;
}

/* The session is heard from now on, as one of this job. */
static void enter_batch_job(struct session *session, const char *path, const uint64_t *memory_max)
{
    struct server *server = session->server;

    if (path[0])
        session->batch_job = batch_job_ref(&server->batch_jobs, path, memory_max, session->uid);
    if (path[0] && !session->batch_job) {
        refuse_client(session, session->socket, CAUSE_MEMORY);
        session_end(session);
        return;
    }
    kept_touch(&session->kept);
    session_hear_again(session);
}

/* Not heard before: so nothing that it has is paid for without its job. False: no memory. */
static bool find_batch_job(struct session *session)
{
    if (!session->server->config->job_cgroups[0])
        return true;
    session_hear_no_more(session);
    return batch_job_lookup_begin(session, enter_batch_job);
}

/* As nothing has come of it yet. */
static struct session *make_session(struct server *server, uint32_t seed)
{
    struct session *session = calloc(1, sizeof(*session));

    if (!session)
        return NULL;
    session->server = server;
    session->since_ns = clock_ns();
#define INIT_TABLE(name, Type, max) slots_init(&session->name, sizeof(Type), max, seed);
    SESSION_TABLES(INIT_TABLE)
#undef INIT_TABLE
    return session;
}

static void identify(struct session *session, int socket, const struct client_process *process,
                     uint64_t id)
{
    session->socket = socket;
    session->pid = session->log.pid = process->pid;
    session->uid = session->log.uid = process->uid;
    session->pidfd = process->pidfd;
    session->id = session->log.session = id;
    DL_APPEND(session->server->sessions, session);
    session->server->n_sessions++;
}

struct session *session_new_for(struct server *server, int socket,
                                const struct client_process *process)
{
    struct session *session = NULL;
    enum cause cause;
    uint32_t seed;

    if (random_fill(&seed, sizeof(seed)))
        session = make_session(server, seed);
    if (!session) {
        close(process->pidfd);
        deferred_close_socket(NULL, socket, client_socket_refuse_fds(socket));
        return NULL;
    }
    session->takes_fds = client_socket_refuse_fds(socket);
    identify(session, socket, process, ++server->last->session);
    bound_unread_replies(session);
    cause = admit_client(session);
    if (cause == CAUSE_USER_SESSION_DESCRIPTORS && wait_for_descriptors(session))
        cause = CAUSE_NONE;
    if (cause == CAUSE_NONE && !find_batch_job(session))
        cause = CAUSE_MEMORY;
    if (cause == CAUSE_NONE)
        return session;
    refuse_client(session, socket, cause);
    session_free(session);
    return NULL;
}

/* --- again --- */

static bool watch_again(struct session *session, const struct session_record *r)
{
    if (watch_client(session) < 0)
        return false;
    if (r->peer_id != PEER_NPUD)
        peer_restore_id(session, r->peer_id);
    session->user = user_ref(&session->server->users, session->uid);
    if (!session->user ||
        !batch_job_take(&session->server->batch_jobs, r->job, &session->batch_job))
        return false;
    set_jobs(session);
    user_charge_again(&session->charge, session->user, RESOURCE_SESSIONS, 1, false);
    user_charge_again(&session->charge_fds, session->user, RESOURCE_FDS, 2, false);
    return true;
}

bool session_restore(struct server *server, struct kept_cell *cell)
{
    struct client_process process;
    struct session *session;
    struct session_record r;
    int socket;

    kept_read(cell, &r, sizeof(r));
    session = make_session(server, 0);
    socket = kept_fd_take(r.socket_key);
    process =
        (struct client_process){.pid = r.pid, .uid = r.uid, .pidfd = kept_fd_take(r.pidfd_key)};
    if (!session || socket < 0 || r.peer_id > PEER_MAX)
        return false;
    session->since_ns = r.since_ns;
    session->takes_fds = r.takes_fds;
    identify(session, socket, &process, r.id);
    if (!watch_again(session, &r) || !session_bind(session, cell, &r))
        return false;
    session->state = r.state;
    return true;
}

/* The npud before was newer, or older by more than one release. */
static bool is_served(const struct session *session)
{
    if (session->state != SESSION_OPEN || protocol_is_served(session->protocol))
        return true;
    log_event(MESSAGE_PROTOCOL, LOG_ERR, &session->log,
              "speaks protocol %u, and this npud speaks %u to %u: session ended", session->protocol,
              PROTOCOL_OLDEST, PROTOCOL);
    return false;
}

/* If it has not said Hello, the npud before may not have found its job. */
static bool goes_on(struct session *session)
{
    return session->state < SESSION_DYING && is_served(session) &&
           (session->state != SESSION_CONNECTED || session->batch_job || find_batch_job(session));
}

void sessions_finish_restoring(struct server *server)
{
    struct session *s, *next;

    DL_FOREACH_SAFE (server->sessions, s, next) {
        if (goes_on(s))
            continue;
        session_halt(s);
        KILL_HERE(END_AGAIN);
        s->state = SESSION_OPEN;
        session_end(s);
    }
}

/* --- end --- */

/*
 * A process that dies closes its socket a moment before its pidfd tells. A session that has queues
 * is given that moment: a dead process has nothing mapped, so the others need not go to new rings,
 * as they must when the process lives on.
 */
static bool await_death(struct session *session)
{
    struct timeval most = {.tv_usec = DEATH_US};

    if (session->state == SESSION_DYING || !session->peer || !queues_shared(session->peer) ||
        !survivor_of_session(session))
        return false;
    if (event_add(session->on_death, &most) < 0)
        return false;
    session_hear_no_more(session);
    session_halt(session);
    session->state = SESSION_DYING;
    kept_touch(&session->kept);
    KILL_HERE(DEATH_AWAITED);
    return true;
}

void session_end(struct session *session)
{
    if (session->state == SESSION_ENDED || await_death(session))
        return;
    rest_leave(session);
    session_hear_no_more(session);
    event_del(session->on_death);
    session->state = SESSION_ENDED;
    kept_touch(&session->kept);
    session->server->schedule.detail = NPUD__REQUEST__BODY__NOT_SET;
    /* Behind others that end: its own turn is worth a request, and a crowd has many turns. */
    if (session->end.owner->jobs || schedule_step_over(&session->server->schedule) ||
        !session_free_some(session))
        job_list(&session->end);
}

static bool run_end(struct job *job)
{
    struct session *session = (struct session *)((char *)job - offsetof(struct session, end));

    session->server->schedule.session = session->id;
    if (session->state == SESSION_ENDED)
        return !session_free_some(session);
    session_end(session);
    return false;
}

int sessions_init(struct server *server)
{
    int r;

    held_requests_init(server);
    r = answers_init(server);
    return r < 0 ? r : buffers_init(server);
}

void sessions_deinit(struct server *server)
{
    server->ending = true;
    arrivals_deinit(server);
    batch_job_lookups_deinit();
    queues_finish(server->queues);
    queue_rests_finish(server->queues);
    for (struct session *s = server->sessions, *next; s; s = next) {
        next = s->next;
        session_free(s);
    }
    answers_deinit(server);
    rests_deinit(server);
    held_requests_deinit(server);
    survivors_deinit(server);
    buffers_deinit(server);
}
