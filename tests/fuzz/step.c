#include "step.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

static bool would_sleep;

static int no_thread(pthread_t *thread, void *(*main)(void *arg))
{
    (void)main;
    *thread = 0; /* which engine_free() takes for "not started" */
    return 0;
}

static int look(int epoll, struct epoll_event *events, int max)
{
    int n = epoll_wait(epoll, events, max, 0);

    would_sleep = n == 0;
    return n;
}

#define pthread_create(thread, attr, main, arg) no_thread(thread, main)
#define epoll_pwait2(epoll, events, max, timeout, sigmask)                                         \
    ((void)(timeout), look(epoll, events, max))

#include "daemon/engine/engine.c"
#include "daemon/engine/idle.c"

enum step engine_step(struct engine *e)
{
    would_sleep = false;
    pthread_mutex_lock(&e->lock);
    self = e;
    run_turn(e);
    self = NULL;
    pthread_mutex_unlock(&e->lock);
    if (would_sleep)
        return STEP_SLEPT;
    return e->idle_since == e->now ? STEP_WORKED : STEP_IDLED;
}

uint64_t engine_deadline(const struct engine *e)
{
    const struct timer *first = timers_first(&e->timers);

    return first ? first->deadline : 0;
}

bool engine_empty(const struct engine *e)
{
    return !e->watched && !e->inbox && e->inbox_n == 0 && e->timers.n == 0 && e->refs.live == 0 &&
           e->wanted == 0;
}
