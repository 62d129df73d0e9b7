#include "step.h"

#include <sys/epoll.h>

#include "daemon/engine/engine.h"
#include "tests/fuzz/hooks/engine.h"

static bool would_sleep;

int step_no_thread(pthread_t *thread)
{
    *thread = 0; /* which engine_free() takes for "not started" */
    return 0;
}

int step_poll(int epoll, struct epoll_event *events, int max)
{
    int n = epoll_wait(epoll, events, max, 0);

    would_sleep = n == 0;
    return n;
}

enum engine_does engine_step(struct engine *e)
{
    would_sleep = false;
    engine_turn(e);
    if (would_sleep)
        return STEP_SLEPT;
    return e->idle_since == e->now ? STEP_WORKED : STEP_IDLED;
}

uint64_t engine_deadline(const struct engine *e)
{
    const struct timer *first = timers_first(&e->timers);

    return first ? first->deadline : 0;
}

void engine_set_spin(struct engine *e, uint64_t spin_ns)
{
    e->spin_max = e->spin = spin_ns;
}

bool engine_empty(const struct engine *e)
{
    return !e->users && !e->inbox && e->inbox_n == 0 && e->timers.n == 0 && e->refs.live == 0 &&
           e->lock_waiters == 0;
}
