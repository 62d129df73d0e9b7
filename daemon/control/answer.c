#include "daemon/control/answer.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/control/rest.h"
#include "daemon/control/session_hear.h"
#include "daemon/core/call.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/session_record.h"
#include "proto/util/clock.h"
#include "proto/wire/envelope.h"
#include "proto/wire/packet.h"

#define FDS_UNREAD_MAX 16u /* of one session */
#define FDS_MAX        3u  /* of one answer */
#define LOOKS          2   /* at those that have not read, for each answer with descriptors */
#define LOOKS_AT_LIMIT 64

/* Until the kernel is asked again: it tells no process that there is room. */
#define RETRY_FIRST_NS NSEC_PER_MSEC
#define RETRY_LAST_NS  (64 * NSEC_PER_MSEC)

/* What a client has been sent and is not known to have read. */
struct unread {
    struct session *session; /* NULL: it has ended, and the socket is kept here */
    struct user *user;       /* the payer */
    int socket;
    bool takes_fds;
    struct charge charge; /* the descriptors; listed while there are any */
    struct charge charge_socket;
    struct event *on_change;    /* of a kept socket */
    struct job change;          /* it has told of something */
    struct unread *prev, *next; /* user->unread, the oldest first */
};

/*
 * An answer that the kernel did not take, or one of the npud before, which may have sent it or not.
 * Requests of the session are not read while it is here. Its request is still in the socket: with
 * the answer's record, the next npud answers it.
 */
struct answer {
    struct kept kept;
    struct session *session;
    uint64_t request;
    struct answer *prev, *next; /* server->answers, the oldest first */
    /* Its own, and with the keeper: what they were made from may go before it is sent. */
    int fds[FDS_MAX];
    unsigned n;
    size_t size;
    uint8_t data[];
};

/*
 * The answer that is being made: packed, and kept while its request is in the socket. One, because
 * one request is handled at a time.
 */
static struct {
    struct kept kept;
    const struct call *call;
    size_t size;
    uint8_t data[PACKET_MAX];
} now;

/* --- what clients have not read --- */

/*
 * Of what lies with the client, nothing is left when it has read it, or closed its socket. A packet
 * that is being freed counts as one byte while the kernel tells npud of it.
 */
static bool has_read_all(const struct unread *unread)
{
    int bytes = 0;

    return ioctl(unread->socket, SIOCOUTQ, &bytes) < 0 || bytes <= 1;
}

static void give_back(struct unread *unread)
{
    if (!unread->charge.user)
        return;
    DL_DELETE(unread->user->unread, unread);
    user_uncharge(&unread->charge);
}

static void unread_free(struct unread *unread)
{
    give_back(unread);
    job_cancel(&unread->change);
    if (unread->on_change)
        event_free(unread->on_change);
    if (!unread->session)
        deferred_close_socket(unread->user, unread->socket, unread->takes_fds);
    user_uncharge(&unread->charge_socket);
    user_unref(unread->user);
    free(unread);
}

/* A client has read all, or closed its socket. */
static void check_read(struct unread *unread)
{
    if (!has_read_all(unread))
        return;
    if (unread->session)
        give_back(unread);
    else
        unread_free(unread);
}

/*
 * Look at those that were listed first. Each answer with descriptors lists one session at most and
 * looks at two: so few are listed that have read.
 */
static void look_at_unread(struct user *user, unsigned looks)
{
    struct unread *unread, *next;

    DL_FOREACH_SAFE (user->unread, unread, next) {
        if (looks-- == 0)
            return;
        check_read(unread);
    }
}

static struct unread *unread_get(struct session *session)
{
    if (!session->unread) {
        session->unread = calloc(1, sizeof(*session->unread));
        if (session->unread)
            *session->unread = (struct unread){.session = session,
                                               .user = user_hold(session->user->payer),
                                               .socket = session->socket};
    }
    return session->unread;
}

static bool has_room(const struct user *user)
{
    return user_used(user, RESOURCE_UNREAD_FDS) + FDS_MAX <= user_limit(user, RESOURCE_UNREAD_FDS);
}

enum cause answer_prepare(struct session *session)
{
    if (!unread_get(session))
        return CAUSE_MEMORY;
    if (has_room(session->user))
        return CAUSE_NONE;
    check_read(session->unread);
    look_at_unread(session->user->payer, LOOKS_AT_LIMIT);
    return has_room(session->user) ? CAUSE_NONE : CAUSE_USER_UNREAD_FDS;
}

/* False: the session leaves too many unread. An honest client has a single request under way. */
static bool charge_fds(struct session *session, unsigned n)
{
    struct unread *unread = session->unread;
    bool listed;

    assert(unread); /* answer_prepare() has made it */
    check_read(unread);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it has a session, so a look does not free it */
    look_at_unread(unread->user, LOOKS);
    listed = unread->charge.user != NULL;
    if (unread->charge.amount + n > FDS_UNREAD_MAX ||
        user_charge_more(&unread->charge, unread->user, RESOURCE_UNREAD_FDS, n) < 0)
        return false;
    if (!listed)
        DL_APPEND(unread->user->unread, unread);
    return true;
}

static bool run_change(struct job *job)
{
    check_read((struct unread *)((char *)job - offsetof(struct unread, change)));
    return false;
}

static void on_change(evutil_socket_t fd, short what, void *arg)
{
    struct unread *unread = arg;

    (void)fd;
    (void)what;
    job_list(&unread->change);
}

/*
 * Edge-triggered, because a socket that is shut down is always ready: there is an edge when the
 * client has read a packet, or its end is closed and the packets have gone with it.
 */
static bool keep_socket(struct unread *unread, struct session *session)
{
    struct server *server = session->server;

    if (server->ending || has_read_all(unread))
        return false;
    unread->on_change =
        event_new(server->base, unread->socket, EV_WRITE | EV_ET | EV_PERSIST, on_change, unread);
    if (!unread->on_change || event_add(unread->on_change, NULL) < 0)
        return false;
    deferred_close_shut(unread->user, unread->socket);
    unread->change =
        (struct job){run_change, "answers that were read", &unread->user->schedule.leftovers};
    unread->session = NULL;
    unread->takes_fds = session->takes_fds;
    /* In place of those that the session gives back. If they are few, that is all the same. */
    user_charge(&unread->charge_socket, unread->user, RESOURCE_FDS, 1);
    return true;
}

/* --- records of answers --- */

/* By what it is opened anew, if it is npud's own for this answer only. */
static int source_of(const struct call_source *source, int fd)
{
    return source->file >= 0 ? source->file : fd;
}

/* But for its descriptors. */
static size_t write_answer(struct answer_record *r, const struct session *session, uint64_t request,
                           const void *data, size_t size)
{
    *r = (struct answer_record){.session = session->id, .request = request, .size = (uint32_t)size};
    memcpy(r->data, data, size);
    return (sizeof(*r) + size + 7) & ~(size_t)7;
}

static size_t write_now(const struct kept *kept, void *record)
{
    const struct call *call = now.call;
    const int fds[FDS_MAX] = {call->fd, call->more_fd[0], call->more_fd[1]};
    struct answer_record *r = record;
    size_t written = write_answer(r, call->session, call->request->id, now.data, now.size);

    (void)kept;
    for (; r->n_fds < FDS_MAX && fds[r->n_fds] >= 0; r->n_fds++) {
        r->fd[r->n_fds].key = kept_key(source_of(&call->source[r->n_fds], fds[r->n_fds]));
        r->fd[r->n_fds].file =
            call->source[r->n_fds].read_only ? ANSWER_FILE_READ_ONLY : ANSWER_FILE_COPY;
    }
    return written;
}

static size_t write_kept_answer(const struct kept *kept, void *record)
{
    const struct answer *a =
        (const struct answer *)((const char *)kept - offsetof(struct answer, kept));
    struct answer_record *r = record;
    size_t written = write_answer(r, a->session, a->request, a->data, a->size);

    for (; r->n_fds < a->n; r->n_fds++) {
        r->fd[r->n_fds].key = kept_key(a->fds[r->n_fds]);
        r->fd[r->n_fds].file = ANSWER_FILE_OWN;
    }
    return written;
}

/* What this step has changed, and the answer that tells of it, are certain at once. */
static void commit_with_answer(const struct call *call)
{
    if (!kept_pending())
        return;
    now.call = call;
    /*
     * Without memory for the record the request would be handled twice after a restart, and fail.
     */
    if (now.kept.cell ||
        kept_make(&now.kept, KEPT_ANSWER, sizeof(struct answer_record) + PACKET_MAX, write_now))
        kept_touch(&now.kept);
    kept_commit();
}

/* --- answers that are kept --- */

/* NULL: no memory. */
static struct answer *answer_new(struct session *session, uint64_t request, const void *data,
                                 size_t size)
{
    struct answer *answer = calloc(1, sizeof(*answer) + size);

    if (!answer)
        return NULL;
    assert(!session->answer);
    answer->session = session;
    session->answer = answer;
    DL_APPEND(session->server->answers, answer);
    answer->request = request;
    answer->size = size;
    memcpy(answer->data, data, size);
    return answer;
}

static void answer_free(struct answer *answer)
{
    DL_DELETE(answer->session->server->answers, answer);
    answer->session->answer = NULL;
    for (unsigned i = 0; i < answer->n; i++)
        kept_close(answer->fds[i]);
    kept_drop(&answer->kept);
    free(answer);
}

bool answer_leave(struct session *session)
{
    struct unread *unread = session->unread;

    if (session->answer)
        answer_free(session->answer);
    session->unread = NULL;
    if (!unread)
        return false;
    if (unread->charge.user && keep_socket(unread, session))
        return true;
    unread_free(unread);
    return false;
}

static void schedule_retry(struct server *server)
{
    struct timeval in = {.tv_usec = (suseconds_t)(server->retry_ns / NSEC_PER_USEC)};

    event_add(server->on_retry, &in);
}

/* A descriptor that was opened for it. False: it was not, as errno says. */
static bool add_fd(struct answer *answer, int fd)
{
    if (fd < 0)
        return false;
    kept_fd(fd);
    answer->fds[answer->n++] = fd;
    return true;
}

/* Copies: those that the reply borrows may be closed before it is sent. */
static bool own_fds(struct answer *answer, const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!add_fd(answer, fcntl(fds[i], F_DUPFD_CLOEXEC, 0)))
            return false;
    return true;
}

/* 0, or negative: it cannot be kept. */
static int keep_answer(struct call *call, const int *fds, unsigned n)
{
    struct session *session = call->session;
    struct server *server = session->server;
    struct answer *answer;

    if (!server->answers) {
        server->retry_ns = RETRY_FIRST_NS;
        schedule_retry(server);
    }
    answer = answer_new(session, call->request->id, now.data, now.size);
    if (!answer)
        return -ENOMEM;
    if (!own_fds(answer, fds, n)) {
        answer_free(answer);
        return -EMFILE;
    }
    kept_make(&answer->kept, KEPT_ANSWER, sizeof(struct answer_record) + answer->size,
              write_kept_answer);
    session_hear_no_more(session);
    return 0;
}

static int log_not_sent(struct session *session, int r)
{
    if (r == -EAGAIN)
        log_client_fault(&session->log, "the client does not read its replies: session ended");
    if (r == -EMFILE || r == -ENOMEM)
        log_line(LOG_ERR, &session->log,
                 "the kernel does not take an answer, and npud lacks %s to keep it: session ended",
                 r == -EMFILE ? "descriptors" : "memory");
    return r;
}

/* False: the kernel takes no more. */
static bool send_again(struct answer *answer)
{
    struct session *session = answer->session;
    int r;

    wake_cost_begin();
    r = packet_send(session->socket, answer->data, answer->size, answer->fds, answer->n,
                    MSG_DONTWAIT);
    if (!rest_after_wake(session) && r == 0)
        r = -EPIPE;
    if (r == -ETOOMANYREFS)
        return false;
    KILL_HERE(REPEAT_SENT);
    if (kept_outlives())
        packet_drop(session->socket); /* the request: it is answered */
    KILL_HERE(REPEAT_TAKEN);
    answer_free(answer);
    if (log_not_sent(session, r) < 0)
        session_end(session);
    else
        session_hear_again(session);
    return true;
}

/* In the order in which they were kept: each of a thousand sessions may have one. */
static bool run_retry(struct job *job)
{
    struct server *server = (struct server *)((char *)job - offsetof(struct server, retry));

    while (server->answers) {
        if (!send_again(server->answers)) {
            if (server->retry_ns < RETRY_LAST_NS)
                server->retry_ns *= 2;
            schedule_retry(server);
            return false;
        }
        server->retry_ns = RETRY_FIRST_NS;
        if (schedule_step_over(&server->schedule))
            break;
    }
    return server->answers != NULL;
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;

    (void)fd;
    (void)what;
    job_list(&server->retry);
}

static void pack_answer(struct call *call)
{
    now.size = envelope_pack(&call->reply.base, now.data, sizeof(now.data));
    assert(now.size <= sizeof(now.data)); /* each answer fits, by its bounds */
}

int answer_send(struct call *call)
{
    const int fds[FDS_MAX + 1] = {call->fd, call->more_fd[0], call->more_fd[1], -1};
    unsigned n = 0;
    struct session *session = call->session;
    int r = -EAGAIN;

    while (fds[n] >= 0)
        n++;
    pack_answer(call);
    commit_with_answer(call);
    KILL_HERE(ANSWER_COMMITTED);
    wake_cost_begin();
    if (n == 0 || charge_fds(session, n))
        r = packet_send(session->socket, now.data, now.size, fds, n, MSG_DONTWAIT);
    KILL_HERE(ANSWER_SENT);
    if (r == -ETOOMANYREFS)
        r = keep_answer(call, fds, n);
    else if (kept_outlives())
        packet_drop(session->socket);
    if (!rest_after_wake(session) && r == 0)
        r = -EPIPE;
    KILL_HERE(ANSWER_TAKEN);
    for (unsigned i = 0; i < n && call->close_fd; i++)
        close(fds[i]);
    return log_not_sent(session, r);
}

/* --- answers of the npud before --- */

/* The id of the request that the session has in its socket. 0: there is none, or it is none. */
static uint64_t waiting_request(const struct session *session)
{
    struct packet packet;
    Npud__Request *request;
    uint64_t id;

    if (packet_recv_without_fds(session->socket, &packet, session->takes_fds,
                                MSG_PEEK | MSG_DONTWAIT) <= 0)
        return 0;
    request =
        (Npud__Request *)envelope_unpack(&npud__request__descriptor, packet.data, packet.size);
    if (!request)
        return 0;
    id = request->id;
    envelope_free(&request->base);
    return id;
}

/* For the answer only. -1: it is not there. */
static int open_file(uint64_t key, uint64_t file)
{
    int fd = file == ANSWER_FILE_OWN ? kept_fd_take(key) : kept_fd_of(key);

    if (fd < 0 || file == ANSWER_FILE_OWN)
        return fd;
    return file == ANSWER_FILE_READ_ONLY ? memfd_open_read_only(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* The client waits for it in vain, and so its session ends; the others are not to suffer. */
static bool drop_answer(struct answer *answer, struct kept_cell *cell)
{
    struct session *session = answer->session;

    log_line(LOG_ERR, &session->log,
             "a descriptor of an answer that was not sent is not there: session ended");
    answer_free(answer);
    kept_discard(cell);
    session->state = SESSION_DYING; /* sessions_finish_restoring() */
    return true;
}

/*
 * The npud before has made this answer certain. If its request is still in the socket, the answer
 * is sent before the session is heard, maybe for the second time: the client takes one of them.
 */
bool answer_restore(struct server *server, struct kept_cell *cell)
{
    static struct {
        struct answer_record head;
        uint8_t data[PACKET_MAX];
    } record;
    const struct answer_record *head = &record.head;
    struct session *session;
    struct answer *answer;

    kept_read(cell, &record, sizeof(record));
    session = session_by_id(head->session);
    if (!session || session->answer || waiting_request(session) != head->request) {
        kept_discard(cell);
        return true;
    }
    if (head->size > PACKET_MAX || head->n_fds > FDS_MAX)
        return false;
    answer = answer_new(session, head->request, record.data, head->size);
    if (!answer)
        return false;
    for (unsigned i = 0; i < head->n_fds; i++)
        if (!add_fd(answer, open_file(head->fd[i].key, head->fd[i].file)))
            return drop_answer(answer, cell);
    session_hear_no_more(session);
    server->retry_ns = RETRY_FIRST_NS;
    job_list(&server->retry);
    if (!kept_bind(&answer->kept, cell, sizeof(*head) + head->size, write_kept_answer))
        return false;
    kept_touch(&answer->kept);
    return true;
}

int answers_init(struct server *server)
{
    now.kept = (struct kept){0};
    server->retry = (struct job){run_retry, "answers that are kept", &server->schedule.own};
    server->on_retry = event_new(server->base, -1, 0, on_retry, server);
    return server->on_retry ? 0 : -ENOMEM;
}

void answers_deinit(struct server *server)
{
    struct user *user, *tmp;

    kept_drop(&now.kept);
    job_cancel(&server->retry);
    if (server->on_retry)
        event_free(server->on_retry);
    server->on_retry = NULL;
    HASH_ITER (hh, server->users.by_uid, user, tmp) {
        struct user *held = user_hold(user); /* the last of them may be all that holds it */

        while (held->unread)
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is taken out of the list */
            unread_free(held->unread);
        user_unref(held);
    }
}
