#include "daemon/base/outbox.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/worker.h"

#define CRASH_TRIES 1000

struct outbox {
    struct worker worker;
    outbox_deliver *deliver;
    pthread_mutex_t lock; /* of what follows */
    unsigned n, limit;
    uint64_t lost;
};

struct message {
    struct errand errand;
    struct outbox *box;
    size_t size;
    char data[];
};

static enum errand_end deliver_message(struct errand *errand)
{
    struct message *m = (struct message *)errand; /* its first member */
    struct outbox *box = m->box;
    uint64_t lost;

    pthread_mutex_lock(&box->lock);
    box->n--;
    lost = box->lost;
    box->lost = 0;
    pthread_mutex_unlock(&box->lock);
    box->deliver(m->data, m->size, lost);
    return ERRAND_DONE;
}

struct outbox *outbox_new(outbox_deliver *deliver, unsigned limit)
{
    struct outbox *box = malloc(sizeof(*box));

    if (!box)
        return NULL;
    *box = (struct outbox){.worker = WORKER("outbox", deliver_message),
                           .deliver = deliver,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .limit = limit};
    if (worker_start(&box->worker) == 0)
        return box;
    free(box);
    return NULL;
}

struct outbox *outbox_free(struct outbox *box, unsigned patience_ms)
{
    if (box && worker_stop_within(&box->worker, patience_ms)) {
        pthread_mutex_destroy(&box->lock);
        free(box);
    }
    return NULL;
}

/*
 * While the lock is held the thread frees nothing. It is not given back. If it cannot be had, then
 * the thread that has crashed holds it, because no other holds it for long.
 */
static void hold_for_good(struct outbox *box)
{
    for (unsigned i = 0; i < CRASH_TRIES && pthread_mutex_trylock(&box->worker.lock) != 0; i++)
        sched_yield();
}

static void deliver_crashed(const struct errand *errand,
                            void (*deliver)(const void *message, size_t size))
{
    const struct message *m = (const struct message *)errand; /* its first member */

    deliver(m->data, m->size);
}

void outbox_crash(struct outbox *box, void (*deliver)(const void *message, size_t size))
{
    unsigned n = 0;

    if (!box)
        return;
    hold_for_good(box);
    if (box->worker.at)
        deliver_crashed(box->worker.at, deliver);
    for (struct errand *w = box->worker.first; w && n < box->limit; w = w->next, n++)
        deliver_crashed(w, deliver);
}

void outbox_put(struct outbox *box, const void *message, size_t size)
{
    struct message *m = malloc(sizeof(*m) + size);
    bool takes;

    if (m) {
        m->box = box;
        m->size = size;
        memcpy(m->data, message, size);
    }
    pthread_mutex_lock(&box->lock);
    takes = m && box->n < box->limit && worker_put(&box->worker, &m->errand);
    if (takes)
        box->n++;
    else
        box->lost++;
    pthread_mutex_unlock(&box->lock);
    if (!takes)
        free(m);
}
