#include "client/core/api_call.h"

#include <stdlib.h>

#include "client/core/lifecycle.h"
#include "client/core/npud_clock.h"
#include "client/core/process.h"
#include "client/core/ring_guard.h"
#include "client/core/thread.h"

static struct api_call_mark none = {.epoch = 1};
__thread struct api_call_mark *api_call_mine = &none;
__thread _Atomic(struct api_call_mark *) api_call_door = &none;
_Atomic uint64_t api_call_epoch = 1;

static _Atomic(void *) marks; /* of all threads so far */

/*
 * A thread without memory for a mark has been inside a call: whether it still is cannot be known.
 */
static _Atomic bool unmarked;

/* --- doors --- */

static _Atomic uint32_t watchers; /* enum api_call_watcher; stored under process->door_lock */

/*
 * A state that is made for a thread after it has given its mark back may stay when the thread is
 * gone, and the door with it: such a thread takes the slow way.
 */
static __thread bool ends;

/* Under the lock. */
static void set_door(struct api_call_mark *mark)
{
    bool open = atomic_load_explicit(&watchers, memory_order_relaxed) == 0;

    atomic_store_explicit(mark->door, open ? mark : &none, memory_order_relaxed);
}

static void add_door(struct api_call_mark *mark)
{
    if (ends)
        return;
    pthread_mutex_lock(&process->door_lock);
    mark->door = &api_call_door;
    set_door(mark);
    pthread_mutex_unlock(&process->door_lock);
}

static void remove_door(struct api_call_mark *mark)
{
    ends = true;
    pthread_mutex_lock(&process->door_lock);
    mark->door = NULL;
    pthread_mutex_unlock(&process->door_lock);
    atomic_store_explicit(&api_call_door, &none, memory_order_relaxed);
}

void api_call_watch(enum api_call_watcher watcher, bool on)
{
    pthread_mutex_lock(&process->door_lock);
    if (on)
        atomic_fetch_or_explicit(&watchers, watcher, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&watchers, ~(uint32_t)watcher, memory_order_relaxed);
    for (struct api_call_mark *m = atomic_load(&marks); m; m = m->mark.next)
        if (m->door)
            set_door(m);
    pthread_mutex_unlock(&process->door_lock);
}

/* --- calls that are told of --- */

#define TIMED_MAX 16 /* calls of a thread inside of each other */

/** Of a thread: those that are under way, the outermost first. */
struct timed_calls {
    uint32_t n;
    struct timed_call {
        uint64_t begin_ns;
        uint32_t depth;             /* thread->call_depth inside of it */
        struct api_call_mark *mark; /* to leave with; NULL: an outer call does that */
    } call[TIMED_MAX];
};

/* False: it is not told of. mark: to leave with, or NULL. */
static bool begin_timed(struct thread *t, struct api_call_mark *mark)
{
    struct timed_calls *calls;

    if (!t->timed_calls)
        t->timed_calls = calloc(1, sizeof(*t->timed_calls));
    calls = t->timed_calls;
    if (!calls || calls->n == TIMED_MAX)
        return false;
    calls->call[calls->n++] =
        (struct timed_call){.begin_ns = npud_clock_ns(), .depth = ++t->call_depth, .mark = mark};
    return true;
}

/* The innermost call that api_call_enter() has returned NULL for, if it is timed; or NULL. */
static struct timed_call *innermost_timed(const struct thread *t)
{
    struct timed_calls *calls = t->timed_calls;
    struct timed_call *c = calls && calls->n > 0 ? &calls->call[calls->n - 1] : NULL;

    return c && c->depth == t->call_depth ? c : NULL;
}

/* A forked child is not watched: what its parent had begun to tell is the parent's. */
static void tell_call(const char *function, uint64_t begin_ns)
{
    uint64_t end_ns = npud_clock_ns();
    uint32_t told;

    if (!function || process_id() == 0)
        return;
    told = atomic_load_explicit(&watchers, memory_order_relaxed);
    if (told & API_CALL_PROFILE)
        upcalls->profile_call(function, begin_ns, end_ns);
    if (told & API_CALL_TRACE)
        upcalls->trace_tell_call(function, begin_ns);
}

void api_call_leave_slow(const char *function)
{
    struct thread *t = thread_current;
    struct timed_call *innermost, c;

    if (!t || t->call_depth == 0)
        return; /* it had no memory for a state when it entered */
    innermost = innermost_timed(t);
    if (!innermost) {
        t->call_depth--;
        return;
    }
    c = *innermost;
    tell_call(function, c.begin_ns);
    t->timed_calls->n--;
    t->call_depth--;
    /* Last: until then the thread counts as inside, and no kernel that has called is left here. */
    if (c.mark)
        api_call_end(c.mark);
}

bool api_call_is_nested(void)
{
    const struct timed_call *c = thread_current ? innermost_timed(thread_current) : NULL;

    return !c || !c->mark;
}

/* --- marks --- */

/* NULL: no memory. */
static struct api_call_mark *own_mark(void)
{
    struct thread *t = thread_self();

    if (api_call_mine != &none)
        return api_call_mine;
    /* Only a thread with a state of its own gives the mark back when it ends. */
    if (t == thread_current)
        t->mark = thread_mark_new(&marks, sizeof(*t->mark));
    if (t != thread_current || !t->mark)
        return NULL;
    api_call_mine = t->mark;
    add_door(t->mark);
    return t->mark;
}

struct api_call_mark *api_call_enter_slow(void)
{
    struct api_call_mark *mark = own_mark();
    bool outermost;

    if (!mark) {
        atomic_store(&unmarked, true);
        return NULL;
    }
    outermost = api_call_try(mark);
    if (atomic_load_explicit(&watchers, memory_order_relaxed) != 0 &&
        begin_timed(thread_current, outermost ? mark : NULL))
        return NULL;
    if (outermost)
        return mark;
    thread_current->call_depth++;
    return NULL;
}

static void give_mark_back(struct thread *t)
{
    struct api_call_mark *mark = t->mark;

    api_call_mine = &none;
    free(t->timed_calls);
    t->timed_calls = NULL;
    if (!mark)
        return;
    remove_door(mark);
    atomic_store_explicit(&mark->epoch, 0, memory_order_release);
    thread_mark_free(&mark->mark);
}

/* The threads of the parent are not there. */
static void forget_inherited(void)
{
    atomic_store_explicit(&watchers, 0, memory_order_relaxed);
    if (api_call_mine != &none && api_call_mine->door)
        set_door(api_call_mine);
    for (struct api_call_mark *m = atomic_load(&marks); m; m = m->mark.next) {
        if (m == api_call_mine)
            continue;
        atomic_store_explicit(&m->epoch, 0, memory_order_relaxed);
        /* Its thread may have slept. */
        atomic_store_explicit(&m->resting, false, memory_order_relaxed);
        atomic_store_explicit(&m->no_events, false, memory_order_relaxed);
        m->door = NULL;
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
