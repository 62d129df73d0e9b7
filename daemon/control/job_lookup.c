#include "daemon/control/job_lookup.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/cgroup.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/schedule.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

struct job_lookup {
    struct job done; /* sent by the thread: its last act on this one */
    job_found_fn *found;
    struct session *session;        /* NULL: it has ended */
    struct job_lookup *prev, *next; /* all */
    struct job_lookup *after;       /* looker.first */
    /* from here on for the thread, until it is done */
    const struct config *config; /* of which it reads keys that never change */
    pid_t pid;
    int error, limit_error;
    uint64_t memory_max;
    char path[CGROUP_PATH_MAX];
};

static struct looker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct job_lookup *first, **last; /* to be done, the oldest first */
    struct job_lookup *all;           /* control thread */
    bool stop;
    bool started; /* control thread */
} looker = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &looker.first};

static void look_up(struct job_lookup *l)
{
    const struct config *config = l->config;

    l->error = cgroup_find_job(config->job_root, config->job_cgroups, l->pid, l->path);
    if (l->path[0])
        l->limit_error = cgroup_memory_max(config->job_root, l->path, &l->memory_max);
}

static void *run_looker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&looker.lock);
    while (!looker.stop) {
        struct job_lookup *l = looker.first;

        if (!l) {
            pthread_cond_wait(&looker.more, &looker.lock);
            continue;
        }
        looker.first = l->after;
        if (!looker.first)
            looker.last = &looker.first;
        pthread_mutex_unlock(&looker.lock);
        look_up(l);
        job_send(&l->done);
        pthread_mutex_lock(&looker.lock);
    }
    pthread_mutex_unlock(&looker.lock);
    return NULL;
}

static bool start_thread(void)
{
    if (!looker.started) {
        looker.stop = false;
        looker.started = pthread_create(&looker.thread, NULL, run_looker, NULL) == 0;
    }
    return looker.started;
}

/*
 * If the process of the session has not ended now, the pid was that of no other when its control
 * group was read. If it has ended, nothing is lost with the job: the session goes.
 */
static bool run_done(struct job *job)
{
    struct job_lookup *l = (struct job_lookup *)job; /* its first member */
    struct session *session = l->session;

    if (session)
        session->lookup = NULL;
    if (session && session_alive(session)) {
        if (l->error < 0)
            log_line(LOG_WARNING, &session->log, "its control group cannot be read: %s",
                     strerror(-l->error));
        if (l->limit_error < 0)
            log_line(LOG_WARNING, &session->log, "memory.max of its job %s cannot be read: %s",
                     l->path, strerror(-l->limit_error));
        l->found(session, l->path, l->limit_error < 0 ? NULL : &l->memory_max);
    }
    DL_DELETE(looker.all, l);
    free(l);
    return false;
}

bool job_lookup_begin(struct session *session, job_found_fn *found)
{
    struct job_lookup *l = start_thread() ? calloc(1, sizeof(*l)) : NULL;

    if (!l)
        return false;
    l->done = (struct job){run_done, "job of session", &session->server->schedule.own};
    l->found = found;
    l->session = session;
    l->config = session->server->config;
    l->pid = session->pid;
    session->lookup = l;
    DL_APPEND(looker.all, l);
    pthread_mutex_lock(&looker.lock);
    *looker.last = l;
    looker.last = &l->after;
    pthread_cond_signal(&looker.more);
    pthread_mutex_unlock(&looker.lock);
    return true;
}

void job_lookup_leave(struct session *session)
{
    if (session->lookup)
        session->lookup->session = NULL;
    session->lookup = NULL;
}

void job_lookups_deinit(void)
{
    struct job_lookup *l, *next;

    if (!looker.started)
        return;
    pthread_mutex_lock(&looker.lock);
    looker.stop = true;
    pthread_cond_signal(&looker.more);
    pthread_mutex_unlock(&looker.lock);
    pthread_join(looker.thread, NULL);
    looker.started = false;
    looker.first = NULL;
    looker.last = &looker.first;
    DL_FOREACH_SAFE (looker.all, l, next) {
        job_cancel(&l->done);
        if (l->session)
            l->session->lookup = NULL;
        free(l);
    }
    looker.all = NULL;
}
