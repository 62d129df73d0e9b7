#include "client/buffers/retire.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/buffers/pool.h"
#include "client/buffers/queue.h"
#include "client/buffers/segment.h"
#include "client/core/side_thread.h"
#include "client/runtime/session.h"
#include "proto/util/clock.h"

/*
 * A thread inside a call keeps a mapping for a moment: how long until it is tried again. Longer
 * each time, because the call may be a callback of the program.
 */
#define TRY_AGAIN_FIRST (10 * NSEC_PER_MSEC)
#define TRY_AGAIN_LAST  (640 * NSEC_PER_MSEC)
#define STACK           ((size_t)256 << 10)

/* Plain FUTEX_WAIT, whose timeout is relative. 0: none. */
static void sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    const struct timespec timeout = timespec_from_ns(ns);

    syscall(SYS_futex, word, FUTEX_WAIT, seen, ns == 0 ? NULL : &timeout, NULL, 0);
}

/* False: a thread still uses something. */
static bool let_go(struct session *s)
{
    bool rings = queue_let_go_all(s);

    pool_let_go(s);
    return segment_let_go_all(s) && rings;
}

static void *retire_main(void *arg)
{
    struct session *s = arg;
    _Atomic uint32_t *word = &s->page->retired;
    uint64_t again = TRY_AGAIN_FIRST;
    uint32_t before = 0;

    atomic_fetch_add(&s->page->library_threads, 1);
    for (;;) {
        uint32_t seen = atomic_load_explicit(word, memory_order_acquire);

        if (side_thread_asked(&s->retire))
            return NULL;
        if (session_lost(s))
            break;
        again = seen != before ? TRY_AGAIN_FIRST : again < TRY_AGAIN_LAST ? 2 * again : again;
        before = seen;
        sleep_on(word, seen, let_go(s) ? 0 : again);
    }
    atomic_fetch_sub(&s->page->library_threads, 1);
    side_thread_leave(&s->retire);
    return NULL;
}

void retire_begin(struct session *s)
{
    if (atomic_load_explicit(&s->retire.state, memory_order_relaxed) != SIDE_THREAD_NONE)
        return;
    if (side_thread_start(&s->retire, retire_main, s, "npud-retire", STACK) != 0)
        atomic_store(&s->retire.state, SIDE_THREAD_ALONE);
}

static void wake_word(struct session *s)
{
    atomic_fetch_add(&s->page->retired, 1);
    syscall(SYS_futex, &s->page->retired, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void end_thread(struct session *s)
{
    if (!side_thread_ask(&s->retire))
        return;
    wake_word(s);
    pthread_join(s->retire.id, NULL);
}

/* The thread ends by itself. */
static void wake_thread(struct session *s)
{
    if (s->page)
        wake_word(s);
}

const struct part retire_part = {.session_lost = wake_thread, .session_leave = end_thread};
