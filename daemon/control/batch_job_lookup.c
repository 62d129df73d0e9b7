#include "daemon/control/batch_job_lookup.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/cgroup.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/schedule.h"
#include "daemon/base/worker.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

struct batch_job_lookup {
    struct errand errand;
    struct job done; /* sent by the thread: its last act on this one */
    batch_job_found_fn *found;
    struct session *session;              /* NULL: it has ended */
    struct batch_job_lookup *prev, *next; /* lookups */
    /* from here on for the thread, until it is done */
    const struct config *config; /* of which it reads keys that never change */
    pid_t pid;
    int error, limit_error;
    uint64_t memory_max;
    char path[CGROUP_PATH_MAX];
};

static struct batch_job_lookup *lookups; /* all */
static _Atomic bool ending;              /* none is worth its time any more */

static void look_up(struct batch_job_lookup *l)
{
    const struct config *config = l->config;

    l->error = cgroup_find_batch_job(config->job_root, config->job_cgroups, l->pid, l->path);
    if (l->path[0])
        l->limit_error = cgroup_memory_max(config->job_root, l->path, &l->memory_max);
}

static enum errand_end run_lookup(struct errand *errand)
{
    struct batch_job_lookup *l = (struct batch_job_lookup *)errand; /* its first member */

    /* Relaxed: it tells no more than itself. */
    if (!atomic_load_explicit(&ending, memory_order_relaxed))
        look_up(l);
    job_send(&l->done);
    return ERRAND_GONE;
}

static struct worker looker = WORKER("job-lookup", run_lookup);

/*
 * If the process of the session has not ended now, the pid was that of no other when its control
 * group was read. If it has ended, nothing is lost with the job: the session goes.
 */
static bool run_done(struct job *job)
{
    struct batch_job_lookup *l =
        (struct batch_job_lookup *)((char *)job - offsetof(struct batch_job_lookup, done));
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
    DL_DELETE(lookups, l);
    free(l);
    return false;
}

bool batch_job_lookup_begin(struct session *session, batch_job_found_fn *found)
{
    struct batch_job_lookup *l = worker_start(&looker) == 0 ? calloc(1, sizeof(*l)) : NULL;

    if (!l)
        return false;
    l->done = (struct job){run_done, "job of session", &session->server->schedule.own};
    l->found = found;
    l->session = session;
    l->config = session->server->config;
    l->pid = session->pid;
    session->lookup = l;
    DL_APPEND(lookups, l);
    worker_put(&looker, &l->errand); /* control thread: no other stops it */
    return true;
}

void batch_job_lookup_leave(struct session *session)
{
    if (session->lookup)
        session->lookup->session = NULL;
    session->lookup = NULL;
}

void batch_job_lookups_deinit(void)
{
    struct batch_job_lookup *l, *next;

    atomic_store_explicit(&ending, true, memory_order_relaxed);
    worker_stop(&looker);
    atomic_store_explicit(&ending, false, memory_order_relaxed);
    DL_FOREACH_SAFE (lookups, l, next) {
        job_cancel(&l->done);
        if (l->session)
            l->session->lookup = NULL;
        free(l);
    }
    lookups = NULL;
}
