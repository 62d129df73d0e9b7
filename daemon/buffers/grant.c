#include "daemon/buffers/grant.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/pidfd.h"
#include "daemon/base/waker.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/record.h"

#define TELL_AT_ONCE 32 /* sessions, before others have their turn */

/* --- sessions whose threads may wait for a grant --- */

static void tell_session(struct session *session)
{
    atomic_fetch_add(&session->page->grants, 1);
    KILL_HERE(GRANT_TOLD);
    waker_wake(&session->page->grants);
}

void grant_asked(struct session *session)
{
    struct queues *queues = session->server->queues;
    struct peer *peer = peer_get(session);

    if (peer && peer->asks)
        return;
    if (peer) {
        /* More sessions of the process may be there under the same key. */
        peer->pid = session->pid;
        HASH_ADD(asker, queues->askers, pid, sizeof(peer->pid), peer);
        peer->asks = peer->asker.tbl != NULL;
    }
    /* No memory to remember it: the client asks again, in place of waiting for ever. */
    if (!peer || !peer->asks)
        tell_session(session);
}

void grant_asks_no_more(struct peer *peer)
{
    if (peer->asks)
        HASH_DELETE(asker, peer->server->queues->askers, peer);
    peer->asks = false;
}

static void tell_asker(struct peer *peer)
{
    grant_asks_no_more(peer);
    tell_session(peer->session);
}

/* Sessions that ask meanwhile stand behind the others. Each is told without need at most once. */
static void tell_some(struct queues *queues)
{
    for (unsigned n = 0; n < TELL_AT_ONCE && queues->to_tell > 0 && queues->askers; n++) {
        queues->to_tell--;
        tell_asker(queues->askers);
    }
    if (!queues->askers)
        queues->to_tell = 0;
}

static bool run_tell(struct job *job)
{
    struct queues *queues = (struct queues *)((char *)job - offsetof(struct queues, tell));

    tell_some(queues);
    return queues->to_tell > 0;
}

void grant_tell_all(struct queues *queues)
{
    queues->to_tell = HASH_CNT(asker, queues->askers);
    tell_some(queues);
    if (queues->to_tell > 0)
        job_list(&queues->tell);
}

void grant_tell_process(struct queues *queues, pid_t pid)
{
    struct peer *peer = NULL;

    for (unsigned n = 0; n < TELL_AT_ONCE; n++) {
        HASH_FIND(asker, queues->askers, &pid, sizeof(pid), peer);
        if (!peer)
            return;
        tell_asker(peer);
    }
    /* A process with that many sessions: the rest of them in their turn. */
    grant_tell_all(queues);
}

void grants_init(struct queues *queues, struct job_owner *owner)
{
    queues->tell = (struct job){run_tell, "news of grants", owner};
}

void grants_deinit(struct queues *queues)
{
    assert(!queues->askers);
    job_cancel(&queues->tell);
}

/* --- grants --- */

void grant_free(struct grant *grant)
{
    struct queue *queue = grant->queue;

    DL_DELETE(queue->grants, grant);
    queue->n_grants--;
    job_cancel(&grant->ended);
    if (grant->on_death)
        event_free(grant->on_death);
    kept_close(grant->pidfd);
    kept_drop(&grant->kept);
    user_uncharge(&grant->charge_fd);
    free(grant);
}

/* The process has ended before it attached. */
static void grant_end(struct grant *grant)
{
    struct queue *queue = grant->queue;
    uint32_t rights = grant->rights;
    pid_t pid = grant->pid;

    grant_free(grant);
    queue_party_left(queue, rights, pid);
    queue_check_used(queue);
}

static bool run_ended(struct job *job)
{
    grant_end((struct grant *)((char *)job - offsetof(struct grant, ended)));
    return false;
}

/* A process may end that was granted thousands of queues. */
static void on_death(evutil_socket_t fd, short what, void *arg)
{
    struct grant *grant = arg;

    (void)fd;
    (void)what;
    job_list(&grant->ended);
}

#define GRANT_MEMBERS(DO)                                                                          \
    DO##DERIVED(serial, o->queue->serial);                                                         \
    DO##DERIVED(pidfd_key, kept_key(o->pidfd));                                                    \
    DO##SAME(pid, pid);                                                                            \
    DO##SAME(rights, rights);

RECORD(static, grant, GRANT, struct grant, kept, struct grant_record, GRANT_MEMBERS)

/* Takes over the pidfd. NULL: no memory. */
static struct grant *make_grant(struct queue *queue, pid_t pid, int pidfd, uint32_t rights)
{
    struct grant *grant = calloc(1, sizeof(*grant));

    if (!grant) {
        close(pidfd);
        return NULL;
    }
    *grant = (struct grant){.queue = queue, .pid = pid, .pidfd = pidfd, .rights = rights};
    grant->ended =
        (struct job){run_ended, "end of a grant", &queue->user->payer->schedule.leftovers};
    DL_APPEND(queue->grants, grant);
    queue->n_grants++;
    return grant;
}

static bool watch_process(struct grant *grant)
{
    grant->on_death = event_new(grant->queue->server->base, grant->pidfd, EV_READ, on_death, grant);
    return grant->on_death && event_add(grant->on_death, NULL) == 0;
}

/* Takes over the pidfd. */
static enum cause grant_new(struct queue *queue, pid_t pid, int pidfd, uint32_t rights)
{
    struct grant *grant = make_grant(queue, pid, pidfd, rights);
    enum cause cause = CAUSE_NONE;

    if (!grant)
        return CAUSE_MEMORY;
    kept_fd(pidfd);
    if (queue->n_grants > GRANTS_MAX)
        cause = CAUSE_GRANTS_OF_QUEUE;
    else if (!watch_process(grant) || !grant_keep(grant))
        cause = CAUSE_MEMORY;
    else if (user_charge(&grant->charge_fd, queue->user, RESOURCE_FDS, 1) < 0)
        cause = CAUSE_USER_DESCRIPTORS;
    if (cause != CAUSE_NONE)
        grant_free(grant);
    else
        queue_party_came(queue, rights);
    return cause;
}

static struct grant *find_grant(struct queue *queue, pid_t pid)
{
    struct grant *grant;

    DL_FOREACH (queue->grants, grant)
        if (grant->pid == pid)
            return grant;
    return NULL;
}

/* A grant that is there, for a process that lives. */
static void change_rights(struct grant *grant, uint32_t rights)
{
    struct queue *queue = grant->queue;
    uint32_t old = grant->rights;
    pid_t pid = grant->pid;

    grant->rights = rights;
    kept_touch(&grant->kept);
    if (rights == 0)
        grant_free(grant);
    queue_party_came(queue, rights & ~old);
    queue_party_left(queue, old & ~rights, pid);
    queue_check_used(queue);
}

static void drop_if_dead(struct grant *grant)
{
    if (!pidfd_alive(grant->pidfd))
        grant_end(grant);
}

static struct queue_attach *attachment_of(struct queue *queue, pid_t pid)
{
    struct queue_attach *attach;

    DL_FOREACH2 (queue->attached, attach, qnext)
        if (attach->peer->session->pid == pid && !attach->leaving &&
            attach->peer->session->state < SESSION_DYING)
            return attach;
    return NULL;
}

/* Why there is no pidfd: of a failed pidfd_open_process(). */
static enum cause cause_of_pidfd(int r)
{
    if (r == -ESRCH || r == -EINVAL)
        return CAUSE_GRANT_NO_PROCESS;
    return cause_of_errno(r);
}

static enum cause grant_to_process(struct queue *queue, pid_t pid, uint32_t rights)
{
    struct grant *grant = find_grant(queue, pid);
    int pidfd;

    if (grant && pidfd_alive(grant->pidfd)) {
        change_rights(grant, rights);
        return CAUSE_NONE;
    }
    pidfd = pidfd_open_process(pid);
    if (pidfd < 0)
        return cause_of_pidfd(pidfd);
    /* The caller has the queue: it does not go with the grant. */
    if (grant)
        drop_if_dead(grant);
    if (rights == 0) {
        close(pidfd);
        return CAUSE_NONE;
    }
    return grant_new(queue, pid, pidfd, rights);
}

enum cause grant_set(struct queue *queue, pid_t pid, uint32_t rights)
{
    struct server *server = queue->server;
    struct queue_attach *attach = attachment_of(queue, pid);
    enum cause cause;

    if (pid <= 0)
        return CAUSE_GRANT_PID;
    if (queue->ends)
        return CAUSE_QUEUE_NOT_ATTACHED;
    cause = attach ? queue_attach_change(attach, rights) : grant_to_process(queue, pid, rights);
    KILL_HERE(GRANTED);
    if (cause == CAUSE_NONE)
        grant_tell_process(server->queues, pid);
    return cause;
}

/*
 * The process of the grant lives, the session's pid is its pid: the session's process is that one,
 * or one that has ended before, whose session goes as soon as npud hears of it, and its attachment
 * with it.
 */
struct grant *grant_find(struct session *session, struct queue *queue)
{
    struct grant *grant = queue->ends ? NULL : find_grant(queue, session->pid);

    return grant && pidfd_alive(grant->pidfd) && session_alive(session) ? grant : NULL;
}

/* --- over the end of npud --- */

bool grant_restore(struct server *server, struct kept_cell *cell)
{
    struct grant_record r;
    struct grant *grant;
    struct queue *queue;
    int pidfd;

    kept_read(cell, &r, sizeof(r));
    queue = queue_restored(r.serial);
    pidfd = kept_fd_take(r.pidfd_key);
    if (!queue || pidfd < 0)
        return false;
    grant = make_grant(queue, r.pid, pidfd, r.rights);
    if (!grant || !watch_process(grant) || !grant_back(server, grant, cell, &r))
        return false;
    user_charge_again(&grant->charge_fd, queue->user, RESOURCE_FDS, 1, false);
    return true;
}

/* Which sessions asked is not kept: a thread that looks without need asks again. */
void grants_finish_restoring(struct server *server)
{
    struct session *session;

    DL_FOREACH (server->sessions, session)
        if (session->page)
            tell_session(session);
}
