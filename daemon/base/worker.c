#include "daemon/base/worker.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "proto/util/clock.h"

/* Its turn, without the lock. */
static void run_next(struct worker *worker)
{
    struct errand *errand = worker->first;
    enum errand_end end;

    DL_DELETE(worker->first, errand);
    worker->at = errand;
    pthread_mutex_unlock(&worker->lock);
    end = worker->run(errand);
    pthread_mutex_lock(&worker->lock);
    worker->at = NULL;
    if (end == ERRAND_AGAIN)
        DL_APPEND(worker->first, errand);
    if (end != ERRAND_DONE)
        return;
    pthread_mutex_unlock(&worker->lock);
    free(errand);
    pthread_mutex_lock(&worker->lock);
}

static void *work_on(void *arg)
{
    struct worker *worker = arg;

    pthread_setname_np(pthread_self(), worker->name);
    pthread_mutex_lock(&worker->lock);
    while (worker->first || !worker->stop)
        if (worker->first)
            run_next(worker);
        else
            pthread_cond_wait(&worker->more, &worker->lock);
    worker->started = false;
    pthread_cond_broadcast(&worker->more);
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

/* The kernel ends a process for these without its handler, where they are blocked. */
static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/* Under the lock. */
static int start_thread(struct worker *worker)
{
    sigset_t all, before;
    int r;

    if (worker->started)
        return 0;
    worker->stop = false;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        sigdelset(&all, crashes[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    r = pthread_create(&worker->thread, NULL, work_on, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->started = r == 0;
    return -r;
}

int worker_start(struct worker *worker)
{
    int r;

    pthread_mutex_lock(&worker->lock);
    r = start_thread(worker);
    pthread_mutex_unlock(&worker->lock);
    return r;
}

bool worker_put(struct worker *worker, struct errand *errand)
{
    bool takes;

    pthread_mutex_lock(&worker->lock);
    if (worker->lazy)
        (void)start_thread(worker);
    takes = worker->lazy || (worker->started && !worker->stop);
    if (takes) {
        DL_APPEND(worker->first, errand);
        pthread_cond_signal(&worker->more);
    }
    pthread_mutex_unlock(&worker->lock);
    return takes;
}

bool worker_is_idle(struct worker *worker)
{
    bool idle;

    pthread_mutex_lock(&worker->lock);
    idle = !worker->first && !worker->at;
    pthread_mutex_unlock(&worker->lock);
    return idle;
}

/* False: there is no thread. */
static bool tell_end(struct worker *worker)
{
    bool started;

    pthread_mutex_lock(&worker->lock);
    started = worker->started;
    worker->stop = true;
    pthread_cond_broadcast(&worker->more);
    pthread_mutex_unlock(&worker->lock);
    return started;
}

void worker_stop(struct worker *worker)
{
    if (tell_end(worker))
        pthread_join(worker->thread, NULL);
}

bool worker_stop_within(struct worker *worker, unsigned patience_ms)
{
    struct timespec until = timespec_from_ns(clock_ns() + patience_ms * NSEC_PER_MSEC);
    int r = 0;

    if (!tell_end(worker))
        return true;
    pthread_mutex_lock(&worker->lock);
    while (worker->started && r == 0)
        r = pthread_cond_clockwait(&worker->more, &worker->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&worker->lock);
    if (r == 0)
        pthread_join(worker->thread, NULL);
    else
        pthread_detach(worker->thread);
    return r == 0;
}
