#include "tests/common/sleeper.h"

#include <time.h>

static void *run_sleeper(void *arg)
{
    struct sleeper_thread *z = arg;

    pthread_mutex_lock(&z->lock);
    while (!z->stop) {
        aclrtEvent event = z->event;
        int32_t limit = z->limit_ms;
        int code;

        if (!event || z->returned) {
            pthread_cond_wait(&z->changed, &z->lock);
            continue;
        }
        pthread_mutex_unlock(&z->lock);
        code = limit == SLEEPER_NEVER ? aclrtSynchronizeEvent(event)
                                      : aclrtSynchronizeEventWithTimeout(event, limit);
        pthread_mutex_lock(&z->lock);
        z->code = code;
        z->returned = true;
        pthread_cond_broadcast(&z->changed);
    }
    pthread_mutex_unlock(&z->lock);
    return NULL;
}

bool sleeper_start(struct sleeper_thread *z)
{
    return pthread_create(&z->thread, NULL, run_sleeper, z) == 0;
}

void sleeper_stop(struct sleeper_thread *z)
{
    pthread_mutex_lock(&z->lock);
    z->stop = true;
    pthread_cond_broadcast(&z->changed);
    pthread_mutex_unlock(&z->lock);
    pthread_join(z->thread, NULL);
}

void sleeper_begin(struct sleeper_thread *z, aclrtEvent event, int32_t limit_ms)
{
    pthread_mutex_lock(&z->lock);
    z->event = event;
    z->limit_ms = limit_ms;
    z->returned = false;
    pthread_cond_broadcast(&z->changed);
    pthread_mutex_unlock(&z->lock);
}

bool sleeper_returned(struct sleeper_thread *z, int32_t wait_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000 + 1;
    while (wait_ms > 0 && !z->returned)
        if (pthread_cond_timedwait(&z->changed, &z->lock, &until) != 0)
            break;
    return z->returned;
}
