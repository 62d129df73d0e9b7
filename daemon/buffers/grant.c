#include "daemon/buffers/grant.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/pidfd.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/futex.h"

void grant_asked(struct session *session)
{
    struct peer *peer = peer_get(session);

    if (peer)
        peer->asked = session->server->queues->asked = true;
}

/*
 * The common case is quick: thousands of queues end when many sessions do, and threads hardly ever
 * wait for one of them.
 */
void grant_tell(struct server *server, pid_t pid)
{
    struct session *session;
    bool asked = false;

    if (!server->queues->asked)
        return;
    DL_FOREACH (server->sessions, session) {
        if (!session->peer || !session->peer->asked || !session->page)
            continue;
        asked = true;
        if (pid != 0 && session->pid != pid)
            continue;
        session->peer->asked = false;
        atomic_fetch_add(&session->page->grants, 1);
        futex_wake_all(&session->page->grants);
    }
    server->queues->asked = asked;
}

void grant_free(struct grant *grant)
{
    struct queue *queue = grant->queue;

    DL_DELETE(queue->grants, grant);
    queue->n_grants--;
    if (grant->on_death)
        event_free(grant->on_death);
    close(grant->pidfd);
    user_uncharge(&grant->charge_fd);
    free(grant);
}

/* The process has ended before it attached. */
static void on_death(evutil_socket_t fd, short what, void *arg)
{
    struct grant *grant = arg;
    struct queue *queue = grant->queue;
    uint32_t rights = grant->rights;
    pid_t pid = grant->pid;

    (void)fd;
    (void)what;
    grant_free(grant);
    queue_party_left(queue, rights, pid);
    queue_check_used(queue);
}

/* Takes over the pidfd. */
static enum cause grant_new(struct queue *queue, pid_t pid, int pidfd, uint32_t rights)
{
    struct grant *grant = calloc(1, sizeof(*grant));
    enum cause cause = CAUSE_NONE;

    if (!grant) {
        close(pidfd);
        return CAUSE_MEMORY;
    }
    *grant = (struct grant){.queue = queue, .pid = pid, .pidfd = pidfd, .rights = rights};
    DL_APPEND(queue->grants, grant);
    queue->n_grants++;
    grant->on_death = event_new(queue->server->base, pidfd, EV_READ, on_death, grant);
    if (queue->n_grants > GRANTS_MAX)
        cause = CAUSE_GRANTS_OF_QUEUE;
    else if (!grant->on_death || event_add(grant->on_death, NULL) < 0)
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
    if (rights == 0)
        grant_free(grant);
    queue_party_came(queue, rights & ~old);
    queue_party_left(queue, old & ~rights, pid);
    queue_check_used(queue);
}

static void drop_if_dead(struct grant *grant)
{
    if (!pidfd_alive(grant->pidfd))
        on_death(grant->pidfd, EV_READ, grant);
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
    cause = attach ? queue_attach_change(attach, rights) : grant_to_process(queue, pid, rights);
    if (cause == CAUSE_NONE)
        grant_tell(server, pid);
    return cause;
}

/*
 * The process of the grant lives, the session's pid is its pid: the session's process is that one,
 * or one that has ended before, whose session goes as soon as npud hears of it, and its attachment
 * with it.
 */
struct grant *grant_find(struct session *session, struct queue *queue)
{
    struct grant *grant = find_grant(queue, session->pid);

    return grant && pidfd_alive(grant->pidfd) && session_alive(session) ? grant : NULL;
}
