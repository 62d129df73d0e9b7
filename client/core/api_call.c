#include "client/core/api_call.h"

#include "client/core/ring_guard.h"
#include "client/core/lifecycle.h"
#include "client/core/thread.h"

static struct api_call_mark none = {.epoch = 1};
__thread struct api_call_mark *api_call_mine = &none;
_Atomic uint64_t api_call_epoch = 1;

static _Atomic(void *) marks; /* of all threads so far */

/*
 * A thread without memory for a mark has been inside a call: whether it still is cannot be known.
 */
static _Atomic bool unmarked;

struct api_call_mark *api_call_enter_slow(void)
{
    struct thread *t = thread_self();

    if (api_call_mine != &none)
        return NULL;
    /* Only a thread with a state of its own gives the mark back when it ends. */
    if (t == thread_current)
        t->mark = thread_mark_new(&marks, sizeof(*t->mark));
    if (t != thread_current || !t->mark) {
        atomic_store(&unmarked, true);
        return NULL;
    }
    api_call_mine = t->mark;
    return api_call_enter();
}

static void give_mark_back(struct thread *t)
{
    struct api_call_mark *mark = t->mark;

    api_call_mine = &none;
    if (!mark)
        return;
    atomic_store_explicit(&mark->epoch, 0, memory_order_release);
    thread_mark_free(&mark->mark);
}

/* The threads of the parent are not there. */
static void forget_inherited(void)
{
    for (struct api_call_mark *m = atomic_load(&marks); m; m = m->mark.next) {
        if (m == api_call_mine)
            continue;
        atomic_store_explicit(&m->epoch, 0, memory_order_relaxed);
        /* Its thread may have slept. */
        atomic_store_explicit(&m->resting, false, memory_order_relaxed);
        atomic_store_explicit(&m->no_events, false, memory_order_relaxed);
        thread_mark_free(&m->mark);
    }
}

const struct part api_call_part = {
    .fork_child = forget_inherited,
    .thread_exit = give_mark_back,
};

uint64_t api_call_new_epoch(void)
{
    uint64_t epoch = atomic_fetch_add(&api_call_epoch, 1) + 1;

    return ring_guard_barrier() ? epoch : 0;
}

static bool in_older(const struct api_call_mark *m, uint64_t epoch)
{
    uint64_t began = atomic_load_explicit(&m->epoch, memory_order_acquire);

    return began != 0 && began < epoch;
}

bool api_call_all_left(uint64_t epoch)
{
    if (epoch == 0 || atomic_load(&unmarked))
        return false;
    for (struct api_call_mark *m = atomic_load(&marks); m; m = m->mark.next)
        if (m != api_call_mine && in_older(m, epoch))
            return false;
    return true;
}

bool api_call_all_left_views(uint64_t epoch)
{
    if (epoch == 0 || atomic_load(&unmarked))
        return false;
    for (struct api_call_mark *m = atomic_load(&marks); m; m = m->mark.next)
        if (!atomic_load_explicit(&m->resting, memory_order_acquire) && in_older(m, epoch))
            return false;
    return true;
}

bool api_call_events_unused(uint64_t epoch)
{
    if (epoch == 0 || atomic_load(&unmarked))
        return false;
    /*
     * A thread that sleeps and wakes up now, leaves, and finds an event in its next call, finds one
     * that lives: the barrier of the epoch is behind us, so it sees which do not.
     */
    for (struct api_call_mark *m = atomic_load(&marks); m; m = m->mark.next)
        if (m != api_call_mine && in_older(m, epoch) &&
            !atomic_load_explicit(&m->no_events, memory_order_acquire))
            return false;
    return true;
}
