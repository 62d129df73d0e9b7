#include "daemon/core/survivor.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/pidfd.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"
#include "daemon/kept/survivor_record.h"

bool survivor_of_session(const struct session *session)
{
    return !session->left && pidfd_alive(session->pidfd);
}

static bool run_exited(struct job *job);

#define SURVIVOR_MEMBERS(DO)                                                                       \
    DO##SAME(session, session_id);                                                                 \
    DO##DERIVED(pidfd_key, kept_key(o->pidfd));                                                    \
    DO##SAME(pid, pid);                                                                            \
    DO##DERIVED(uid, o->user->uid);

RECORD(static, survivor, SURVIVOR, struct survivor, kept, struct survivor_record, SURVIVOR_MEMBERS)

/* It holds the user. */
static struct survivor *make_survivor(struct server *server, uint64_t session_id, pid_t pid,
                                      struct user *user)
{
    struct survivor *survivor = calloc(1, sizeof(*survivor));

    if (!survivor)
        return NULL;
    survivor->server = server;
    survivor->session_id = session_id;
    survivor->pid = pid;
    survivor->pidfd = -1;
    survivor->user = user;
    survivor->job = (struct job){run_exited, "process exit", &user->payer->schedule.leftovers};
    return survivor;
}

struct survivor *survivor_of(struct session *session)
{
    struct server *server = session->server;
    struct survivor *survivor = session->survivor;

    if (survivor || server->ending || !survivor_of_session(session))
        return survivor;
    survivor = make_survivor(server, session->id, session->pid, session->user);
    if (!survivor || !survivor_keep(survivor)) {
        free(survivor);
        return NULL;
    }
    user_hold(survivor->user);
    DL_APPEND(server->survivors, survivor);
    return session->survivor = survivor;
}

static void survivor_free(struct survivor *survivor)
{
    struct server *server = survivor->server;

    assert(!survivor->parts);
    DL_DELETE(server->survivors, survivor);
    job_cancel(&survivor->job);
    if (survivor->on_exit)
        event_free(survivor->on_exit);
    kept_close(survivor->pidfd);
    kept_drop(&survivor->kept);
    user_uncharge(&survivor->charge);
    user_uncharge(&survivor->charge_fd);
    user_unref(survivor->user);
    free(survivor);
}

void survivor_add(struct survivor *survivor, struct survivor_part *part,
                  bool (*exited)(struct survivor_part *part))
{
    assert(!part->survivor);
    part->exited = exited;
    part->survivor = survivor;
    DL_PREPEND(survivor->parts, part);
}

void survivor_remove(struct survivor_part *part)
{
    if (!part->survivor)
        return;
    DL_DELETE(part->survivor->parts, part);
    part->survivor = NULL;
}

/* A piece of the first part. */
static void free_piece(struct survivor *survivor)
{
    struct survivor_part *part = survivor->parts;

    survivor_remove(part);
    if (!part->exited(part))
        survivor_add(survivor, part, part->exited);
    KILL_HERE(SURVIVOR_PIECE);
}

void survivor_free_parts(struct survivor *survivor)
{
    while (survivor->parts)
        free_piece(survivor);
}

static void survivor_exited(struct survivor *survivor)
{
    survivor_free_parts(survivor);
    survivor_free(survivor);
}

static bool run_exited(struct job *job)
{
    struct survivor *survivor = (struct survivor *)((char *)job - offsetof(struct survivor, job));

    while (survivor->parts) {
        free_piece(survivor);
        if (schedule_step_over(&survivor->server->schedule))
            return true;
    }
    survivor_free(survivor);
    return false;
}

static void on_exit_of_process(evutil_socket_t fd, short what, void *arg)
{
    struct survivor *survivor = arg;

    (void)fd;
    (void)what;
    job_list(&survivor->job);
}

static void watch_process(struct survivor *survivor)
{
    survivor->on_exit =
        event_new(survivor->server->base, survivor->pidfd, EV_READ, on_exit_of_process, survivor);
    if (!survivor->on_exit || event_add(survivor->on_exit, NULL) < 0) {
        log_line(LOG_WARNING, NULL, "no memory to watch process %d, whose session %llu has ended",
                 (int)survivor->pid, (unsigned long long)survivor->session_id);
        survivor_exited(survivor);
    }
}

void survivor_watch(struct session *session)
{
    struct survivor *survivor = session->survivor;

    if (!survivor)
        return;
    session->survivor = NULL;
    survivor->pidfd = session->pidfd;
    session->pidfd = -1;
    survivor->charge = session->charge;
    session->charge = (struct charge){0};
    /*
     * The socket's descriptor is given back, the pidfd's is kept: there is room for one where two
     * were.
     */
    user_uncharge(&session->charge_fds);
    if (survivor->charge.user)
        user_charge(&survivor->charge_fd, survivor->user, RESOURCE_FDS, 1);
    kept_touch(&survivor->kept);
    watch_process(survivor);
}

/* --- again --- */

/*
 * While npud restores: by the ids of their sessions. Each number of an IPC event that is set aside
 * asks for one.
 */
static struct survivor *restored;

/* What session_free() has left it, in survivor_watch(). */
static bool take_over_again(struct survivor *survivor, uint64_t pidfd_key)
{
    survivor->pidfd = kept_fd_take(pidfd_key);
    user_charge_again(&survivor->charge, survivor->user, RESOURCE_SESSIONS, 1, false);
    user_charge_again(&survivor->charge_fd, survivor->user, RESOURCE_FDS, 1, false);
    return survivor->pidfd >= 0;
}

bool survivor_restore(struct server *server, struct kept_cell *cell)
{
    struct survivor *survivor;
    struct survivor_record r;
    struct session *session;
    struct user *user;

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    user = user_ref(&server->users, r.uid);
    survivor = user ? make_survivor(server, r.session, r.pid, user) : NULL;
    if (!survivor)
        return false;
    DL_APPEND(server->survivors, survivor);
    if (session)
        session->survivor = survivor;
    HASH_ADD(hh, restored, session_id, sizeof(survivor->session_id), survivor);
    return survivor->hh.tbl && survivor_back(server, survivor, cell, &r) &&
           (session || take_over_again(survivor, r.pidfd_key));
}

struct survivor *survivor_by_session(uint64_t session_id)
{
    struct survivor *survivor;

    HASH_FIND(hh, restored, &session_id, sizeof(session_id), survivor);
    return survivor;
}

void survivors_finish_restoring(struct server *server)
{
    struct survivor *survivor, *next;

    HASH_CLEAR(hh, restored);
    DL_FOREACH_SAFE (server->survivors, survivor, next)
        if (survivor->pidfd >= 0)
            watch_process(survivor);
}

void survivors_deinit(struct server *server)
{
    struct survivor *survivor, *next;

    DL_FOREACH_SAFE (server->survivors, survivor, next)
        survivor_exited(survivor);
}
