#include "client/wait.h"

#include <errno.h>
#include <pthread.h>
#include <utlist.h>

#include "client/session.h"
#include "proto/clock.h"
#include "proto/futex.h"
#include "proto/ipc_page.h"
#include "proto/stream_shm.h"

/* A thread that sleeps, on its own stack. */
struct wait {
    _Atomic uint32_t *word;
    struct wait *prev, *next;
};

uint64_t wait_deadline(int64_t ms)
{
    return ms < 0 ? WAIT_FOREVER : clock_ns() + (uint64_t)ms * NSEC_PER_MSEC;
}

/*
 * Registered before the sequence word and `lost` are read: the watcher sets `lost` and then bumps
 * the word of everybody on the list, so either we see `lost`, or our sleep ends at once because the
 * word has changed.
 */
static void enlist(struct session *s, struct wait *w, _Atomic uint32_t *word)
{
    w->word = word;
    pthread_mutex_lock(&s->waits_lock);
    DL_APPEND(s->waits, w);
    pthread_mutex_unlock(&s->waits_lock);
}

static void delist(struct session *s, struct wait *w)
{
    pthread_mutex_lock(&s->waits_lock);
    DL_DELETE(s->waits, w);
    pthread_mutex_unlock(&s->waits_lock);
}

void wait_abort_all(struct session *s)
{
    struct wait *w;

    pthread_mutex_lock(&s->waits_lock);
    DL_FOREACH (s->waits, w) {
        /* npud is not there to be confused, and other processes on the same word only look once
         * more. */
        atomic_fetch_add(w->word, 1);
        futex_wake_all(w->word);
    }
    pthread_mutex_unlock(&s->waits_lock);
}

static int sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
    struct timespec ts;

    if (deadline == WAIT_FOREVER)
        return futex_wait_until(word, seen, NULL);
    ts = timespec_from_ns(deadline);
    return futex_wait_until(word, seen, &ts);
}

static bool reached(struct stream_ctrl *c, uint64_t position)
{
    return atomic_load_explicit(&c->done, memory_order_acquire) >= position;
}

int wait_position(struct session *s, struct stream_ctrl *c, uint64_t position, uint64_t deadline)
{
    struct wait w;
    int r = 0;

    if (reached(c, position))
        return 0;
    enlist(s, &w, &c->wake_seq);
    for (;;) {
        uint32_t seen = atomic_load_explicit(&c->wake_seq, memory_order_acquire);

        stream_arm(c, position);
        if (reached(c, position))
            r = 0;
        else if (session_lost(s))
            r = -EPIPE;
        else if (r != -ETIMEDOUT) {
            r = sleep_on(&c->wake_seq, seen, deadline);
            continue;
        }
        break;
    }
    delist(s, &w);
    return r;
}

int wait_record(struct session *s, struct ipc_page *page, uint64_t number, uint64_t deadline)
{
    struct wait w;
    int r = 0;

    if (ipc_state_of(page, number) != IPC_PENDING)
        return 0;
    enlist(s, &w, &page->wake_seq);
    for (;;) {
        uint32_t seen = atomic_load_explicit(&page->wake_seq, memory_order_acquire);

        if (!ipc_arm(page, number))
            r = 0;
        else if (session_lost(s))
            r = -EPIPE;
        else if (r != -ETIMEDOUT) {
            r = sleep_on(&page->wake_seq, seen, deadline);
            continue;
        }
        break;
    }
    delist(s, &w);
    return r;
}
