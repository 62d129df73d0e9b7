#include "client/queue_retire.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/queue.h"
#include "client/session.h"
#include "proto/clock.h"

/* A thread inside a call keeps a ring mapped for a moment: how long until it is tried again. */
#define TRY_AGAIN (50 * NSEC_PER_MSEC)
#define STACK     ((size_t)256 << 10)

/* Plain FUTEX_WAIT, whose timeout is relative. */
static void sleep_on(_Atomic uint32_t *word, uint32_t seen, const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, NULL, 0);
}

static void *retire_main(void *arg)
{
    const struct timespec soon = {.tv_nsec = TRY_AGAIN};
    struct session *s = arg;
    _Atomic uint32_t *word = &s->page->rings;

    for (;;) {
        uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
        bool all;

        if (atomic_load(&s->retire.end))
            return NULL;
        if (session_lost(s))
            break;
        all = queues_let_go(s);
        sleep_on(word, seen, all ? NULL : &soon);
    }
    /* queue_retire_end() joins the thread, if it was first. */
    if (!atomic_exchange(&s->retire.over, true))
        pthread_detach(pthread_self());
    return NULL;
}

void queue_retire_begin(struct session *s)
{
    pthread_attr_t attr;
    sigset_t all, old;

    if (atomic_load_explicit(&s->retire.tried, memory_order_relaxed) ||
        atomic_exchange(&s->retire.tried, true))
        return;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    /* The program's signals are for its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->retire.started = pthread_create(&s->retire.thread, &attr, retire_main, s) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (s->retire.started)
        pthread_setname_np(s->retire.thread, "npud-rings");
}

static void wake(struct session *s)
{
    atomic_fetch_add(&s->page->rings, 1);
    syscall(SYS_futex, &s->page->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void queue_retire_end(struct session *s)
{
    if (!s->retire.started || atomic_exchange(&s->retire.over, true))
        return;
    atomic_store(&s->retire.end, true);
    wake(s);
    pthread_join(s->retire.thread, NULL);
}

void queue_retire_lost(struct session *s)
{
    if (s->page)
        wake(s);
}
