#include "daemon/engine/engine.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "daemon/core/device.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/trace.h"
#include "daemon/engine/failure.h"
#include "proto/util/clock.h"

#define SPIN_LOOKS 32 /* glances that find nothing, between two full turns */
/* Glances, if some find quick tasks. */
#define QUICK_LOOKS (4 * SPIN_LOOKS)
/* Streams of a session per glance: a session can have many with nothing in them. */
#define GLANCE_STREAMS 64

/* Engines that spin at this moment, in all of npud: at most half the CPUs, so that clients have
 * CPUs on which to give them work. */
static _Atomic int spinners;

static int spinners_max(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) < 0 ? 0 : CPU_COUNT(&set) / 2;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* True when the entry at head is there: a glance, which orders nothing. */
static bool entry_ready(const struct stream *s)
{
    return atomic_load_explicit(&s->ring[s->live->position & (s->depth - 1)].sequence,
                                memory_order_relaxed) == s->live->position + 1;
}

void idle_stop_spinning(struct engine *e)
{
    if (e->spinning)
        atomic_fetch_sub(&spinners, 1);
    e->spinning = false;
}

static bool may_spin(struct engine *e)
{
    if (e->spinning)
        return true;
    if (e->spin == 0)
        return false;
    e->spinning = atomic_fetch_add(&spinners, 1) < spinners_max();
    if (!e->spinning)
        atomic_fetch_sub(&spinners, 1);
    return e->spinning;
}

/* Give up watching everything. False when work came in: stay awake. */
static bool demote_all(struct engine *e, uint64_t now)
{
    struct engine_user *u, *utmp;
    struct attach *a, *atmp;
    struct stream *s, *stmp;
    bool all = true;

    DL_FOREACH_SAFE (e->users, u, utmp)
        DL_FOREACH_SAFE (u->watched, a, atmp) {
            DL_FOREACH_SAFE (a->active, s, stmp)
                all &= watch_drop_stream(s);
            all &= !a->active && watch_drop_attach(e, a, now);
        }
    return all;
}

static int wait_events(struct engine *e, struct epoll_event *events)
{
    struct timer *first = timers_first(&e->timers);
    struct timespec ts = {0}, *timeout = NULL;
    int n;

    if (first) {
        uint64_t now = clock_ns();

        ts = timespec_from_ns(first->deadline > now ? first->deadline - now : 0);
        timeout = &ts;
    }
    pthread_mutex_unlock(&e->lock);
    n = epoll_pwait2(e->epoll, events, WATCH_EVENTS, timeout, NULL);
    if (n < 0 && errno != EINTR) /* before Linux 5.11, or filtered: milliseconds must do */
        n = epoll_wait(e->epoll, events, WATCH_EVENTS,
                       timeout ? (int)(ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1) : -1);
    pthread_mutex_lock(&e->lock);
    return n;
}

/* False: a device has done work in the meantime. */
static bool tell_backend(struct engine *e, bool asleep)
{
    struct device *d = e->device;

    return !d->backend->sleep || d->backend->sleep(d->backend_state, d->index, asleep);
}

static void go_to_sleep(struct engine *e)
{
    struct epoll_event events[WATCH_EVENTS];
    uint64_t slept, now;
    int n;

    idle_stop_spinning(e);
    atomic_store(&e->sleeping, true);
    if (atomic_load(&e->inbox_n) != 0 || atomic_load(&e->stop) || !tell_backend(e, true)) {
        atomic_store_explicit(&e->sleeping, false, memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&e->turn_since, 0, memory_order_relaxed);
    slept = clock_ns();
    n = wait_events(e, events);
    now = clock_ns();
    atomic_store_explicit(&e->sleeping, false, memory_order_relaxed);
    atomic_store_explicit(&e->turn_since, now, memory_order_relaxed);
    tell_backend(e, false);
    atomic_fetch_add_explicit(&e->wakeups, 1, memory_order_relaxed);
    /*
     * Adaptive: a sleep that spinning would have saved restores the full spin time; a spin that
     * finds nothing halves it. An engine that shares its CPU with its clients never finds anything
     * by spinning, and stops.
     */
    e->spin = now - slept < 2 * e->spin_max ? e->spin_max : e->spin / 2;
    e->last_poll = now;
    e->idle_since = now;
    if (e->device->trace)
        trace_sleep(e->device->trace, slept, now);
    if (n > 0)
        watch_handle_doorbells(e, events, n, now);
}

enum glance {
    GLANCE_NOTHING,
    GLANCE_TASK, /* in the ring of an active stream */
    GLANCE_WORK, /* anything else */
};

static enum glance glance_at_session(const struct attach *a, struct stream **ready)
{
    struct stream *s;
    unsigned n = 0;

    if (a->words || atomic_load_explicit(&a->bell->summary, memory_order_relaxed) != 0 ||
        failure_can_retry(a))
        return GLANCE_WORK;
    DL_FOREACH (a->active, s) {
        if (entry_ready(s)) {
            *ready = s;
            return GLANCE_TASK;
        }
        if (++n == GLANCE_STREAMS)
            break; /* the full turn looks at all */
    }
    return GLANCE_NOTHING;
}

/*
 * Is there anything to do? A glance at what clients and other threads write, without a system call
 * or a clock.
 */
static enum glance glance_at_rings(const struct engine *e, struct stream **ready)
{
    const struct engine_user *u;
    const struct attach *a;
    enum glance found;

    if (atomic_load_explicit(&e->lock_waiters, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&e->inbox_n, memory_order_relaxed) != 0)
        return GLANCE_WORK;
    DL_FOREACH (e->users, u)
        DL_FOREACH (u->watched, a)
            if ((found = glance_at_session(a, ready)) != GLANCE_NOTHING)
                return found;
    return GLANCE_NOTHING;
}

/*
 * Glances, until there is something for a full turn. A quick task is run as soon as it is seen: a
 * full turn costs more than such a task. Looks and tasks are bounded, because timers and the
 * doorbells of other sessions wait for the full turn, and because all that is done between two
 * looks at the clock is one step.
 */
static void spin_at_rings(struct engine *e, uint64_t now)
{
    struct stream *ready;
    unsigned idle = 0, tasks = 0;
    bool polls = e->device->backend->poll;

    for (unsigned looks = 0; looks < QUICK_LOOKS; looks++) {
        switch (glance_at_rings(e, &ready)) {
        case GLANCE_WORK:
            return;
        case GLANCE_NOTHING:
            if (++idle == SPIN_LOOKS || (polls && engine_poll(e)))
                return;
            /* The begin of a task that the next glance finds, which then waits for no clock. */
            if (__builtin_expect(e->device->trace != NULL, 0))
                now = clock_ns();
            else
                cpu_relax();
            break;
        case GLANCE_TASK:
            if (++tasks > TASKS_PER_TIME || !engine_run_quick(e, ready, now))
                return;
            /* Whom it has let go is in no ring: the full turn finds it, and it has waited. */
            if (e->resumed)
                return;
            idle = 0;
            e->spin = e->spin_max;
            e->idle_since = now;
            break;
        }
    }
}

void idle_turn(struct engine *e, uint64_t now)
{
    if (now - e->idle_since < e->spin && may_spin(e)) {
        spin_at_rings(e, now);
        return;
    }
    if (demote_all(e, now))
        go_to_sleep(e);
}
