#include "daemon/base/outbox.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/util/clock.h"

#define CRASH_TRIES 1000

struct message {
    struct message *next; /* outbox.first */
    size_t size;
    char data[];
};

/* The lock is never held while a message is delivered. */
struct outbox {
    outbox_deliver *deliver;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a message has come, or `ending` is set */
    pthread_cond_t over;    /* the thread has left its loop */
    struct message *first, **last;
    struct message *delivered; /* the one that the thread is at */
    unsigned n, limit;
    uint64_t lost;
    bool ending, ended;
};

static struct message *outbox_take(struct outbox *box, uint64_t *lost)
{
    struct message *m;

    pthread_mutex_lock(&box->lock);
    while (!box->first && !box->ending)
        pthread_cond_wait(&box->changed, &box->lock);
    m = box->first;
    if (m) {
        box->first = m->next;
        if (!box->first)
            box->last = &box->first;
        box->n--;
        box->delivered = m;
        *lost = box->lost;
        box->lost = 0;
    } else {
        box->ended = true;
        pthread_cond_signal(&box->over);
    }
    pthread_mutex_unlock(&box->lock);
    return m;
}

static void *outbox_run(void *arg)
{
    struct outbox *box = arg;
    struct message *m;
    uint64_t lost;

    while ((m = outbox_take(box, &lost))) {
        box->deliver(m->data, m->size, lost);
        pthread_mutex_lock(&box->lock);
        box->delivered = NULL;
        pthread_mutex_unlock(&box->lock);
        free(m);
    }
    return NULL;
}

static int outbox_start(struct outbox *box)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    r = pthread_create(&box->thread, NULL, outbox_run, box);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

struct outbox *outbox_new(outbox_deliver *deliver, unsigned limit)
{
    struct outbox *box = calloc(1, sizeof(*box));
    pthread_condattr_t monotonic;

    if (!box)
        return NULL;
    box->deliver = deliver;
    box->limit = limit;
    box->last = &box->first;
    pthread_mutex_init(&box->lock, NULL);
    pthread_cond_init(&box->changed, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&box->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (outbox_start(box) == 0)
        return box;
    free(box);
    return NULL;
}

/* True when the thread has delivered everything and left. */
static bool outbox_drain(struct outbox *box, unsigned patience_ms)
{
    struct timespec until = timespec_from_ns(clock_ns() + patience_ms * NSEC_PER_MSEC);
    bool ended;

    pthread_mutex_lock(&box->lock);
    box->ending = true;
    pthread_cond_signal(&box->changed);
    while (!box->ended && pthread_cond_timedwait(&box->over, &box->lock, &until) != ETIMEDOUT)
        ;
    ended = box->ended;
    pthread_mutex_unlock(&box->lock);
    return ended;
}

struct outbox *outbox_free(struct outbox *box, unsigned patience_ms)
{
    if (!box)
        return NULL;
    if (!outbox_drain(box, patience_ms)) {
        pthread_detach(box->thread);
        return NULL;
    }
    pthread_join(box->thread, NULL);
    pthread_mutex_destroy(&box->lock);
    pthread_cond_destroy(&box->changed);
    pthread_cond_destroy(&box->over);
    free(box);
    return NULL;
}

/*
 * While the lock is held the thread frees nothing. It is not given back. If it cannot be had, then
 * the thread that has crashed holds it, because no other holds it for long.
 */
static void hold_for_good(struct outbox *box)
{
    for (unsigned i = 0; i < CRASH_TRIES && pthread_mutex_trylock(&box->lock) != 0; i++)
        sched_yield();
}

void outbox_crash(struct outbox *box, void (*deliver)(const void *message, size_t size))
{
    unsigned n = 0;

    if (!box)
        return;
    hold_for_good(box);
    if (box->delivered)
        deliver(box->delivered->data, box->delivered->size);
    for (struct message *m = box->first; m && n < box->limit; m = m->next, n++)
        deliver(m->data, m->size);
}

void outbox_put(struct outbox *box, const void *message, size_t size)
{
    struct message *m = malloc(sizeof(*m) + size);

    if (m) {
        m->next = NULL;
        m->size = size;
        memcpy(m->data, message, size);
    }
    pthread_mutex_lock(&box->lock);
    if (m && box->n < box->limit) {
        *box->last = m;
        box->last = &m->next;
        box->n++;
        m = NULL;
        pthread_cond_signal(&box->changed);
    } else {
        box->lost++;
    }
    pthread_mutex_unlock(&box->lock);
    free(m);
}
