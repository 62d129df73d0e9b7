#include "daemon/core/engine.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/core/device.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/inject.h"
#include "daemon/engine/notify_tasks.h"
#include "daemon/engine/value.h"
#include "daemon/base/log.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/base/timers.h"
#include "acl/error_codes/rt_error_codes.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define BUDGET 64 /* tasks of one stream per turn */
#define POLL_INTERVAL                                                                              \
    (3 * NSEC_PER_USEC) /* how often a busy engine looks for doorbells of unwatched sessions */
#define EPOLL_BATCH 64
/*
 * Of one session, before the next has its turn. A client that keeps its streams full adds this to
 * each step of the others; an IPC ping-pong has half a dozen of them in 20 us.
 */
#define SLICE      (4 * NSEC_PER_USEC)
#define SPIN_LOOKS 32 /* glances at the rings between two full turns, while idle */
/*
 * Bounds of what a session can make the engine do by ringing alone, each well below a slice: words
 * of its doorbell that are looked at per turn, its streams that are looked at before the clock is,
 * and its streams per glance.
 */
#define COLLECT_WORDS  2
#define LOOKS_PER_TIME 64
#define GLANCE_STREAMS 64
#define TASKS_PER_TIME 16 /* tasks of one stream before the clock is looked at */
#define VAIN_MAX                                                                                   \
    1000 /* rings without a task; an honest client's last one may come too late, not more */

/* What epoll reports: a token, not an address, because the attachment may be gone when we hold the
 * lock again. */
struct attach_ref {
    struct slot slot;
    struct attach *attach;
};
#define TOKEN_WAKE UINT64_MAX

struct engine {
    struct device *device;
    pthread_t thread;
    _Atomic bool stop;

    /*
     * lock is held by the engine while it is awake. A plain mutex would starve everybody else,
     * since the engine takes it again at once: who wants it counts up `wanted` and holds `gate`
     * until it has the lock, and the engine, which looks at `wanted` once a turn, passes through
     * the gate.
     */
    pthread_mutex_t lock;
    pthread_mutex_t gate;
    _Atomic uint32_t wanted;

    int epoll;
    int wake; /* eventfd: inbox, or stop */
    struct slots refs;
    struct attach *watched; /* sessions that it looks at, each with its active streams */
    struct timers timers;
    uint32_t mode; /* of the doorbells */
    uint64_t last_poll;
    uint64_t now; /* when this turn began */

    uint64_t spin_max;
    uint64_t spin; /* current, adaptive */
    uint64_t idle_since;
    bool spinning; /* counted in `spinners` */

    pthread_mutex_t inbox_lock;
    struct stream *inbox;
    _Atomic uint32_t inbox_n;
    _Atomic bool sleeping;

    _Atomic uint64_t turn_since; /* 0: asleep */
    _Atomic uint64_t tasks;
    _Atomic uint64_t wakeups;
};

static __thread struct engine *self;

/* Engines that spin at this moment, in all of npud: at most half the CPUs, so that there is
 * somebody to spin for. */
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

/* --- lock --- */

void engine_lock(struct engine *e)
{
    atomic_fetch_add(&e->wanted, 1);
    pthread_mutex_lock(&e->gate);
    pthread_mutex_lock(&e->lock);
    pthread_mutex_unlock(&e->gate);
    atomic_fetch_sub(&e->wanted, 1);
}

void engine_unlock(struct engine *e)
{
    pthread_mutex_unlock(&e->lock);
}

static void let_others_in(struct engine *e)
{
    if (atomic_load_explicit(&e->wanted, memory_order_relaxed) == 0)
        return;
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_lock(&e->gate);
    pthread_mutex_lock(&e->lock);
    pthread_mutex_unlock(&e->gate);
}

/* --- sessions and streams that the engine looks at --- */

static void watch(struct engine *e, struct attach *a, uint64_t now)
{
    a->idle_since = now;
    if (a->watched)
        return;
    a->watched = true;
    DL_APPEND(e->watched, a);
    atomic_store(&a->bell->watched, 1);
}

static void activate(struct stream *s, uint64_t now)
{
    s->run = RUN_ACTIVE;
    s->rung = true;
    s->idle_since = now;
    DL_APPEND(s->attach->active, s);
    atomic_store_explicit(&s->ctrl->watched, 1, memory_order_relaxed);
}

static void resume(struct engine *e, struct stream *s)
{
    assert(s->run == RUN_PARKED);
    timers_clear(&e->timers, &s->timer);
    s->waiting_on = NULL;
    s->callback = 0;
    s->run = RUN_ACTIVE;
    s->idle_since = e->now;
    DL_APPEND(s->attach->active, s);
    watch(e, s->attach, e->now);
}

static void wake(struct engine *e)
{
    /* Cannot fail: the counter would need 2^64 wake-ups. */
    eventfd_write(e->wake, 1);
}

void engine_unpark(struct stream *s)
{
    struct engine *e = s->attach->device->engine;

    if (e == self) {
        resume(e, s);
        return;
    }
    pthread_mutex_lock(&e->inbox_lock);
    s->in_inbox = true;
    LL_PREPEND2(e->inbox, s, inbox_next);
    atomic_fetch_add(&e->inbox_n, 1);
    pthread_mutex_unlock(&e->inbox_lock);
    /* Dekker with go_to_sleep(): inbox_n, then sleeping; there sleeping, then inbox_n. */
    if (atomic_load(&e->sleeping))
        wake(e);
}

static void drain_inbox(struct engine *e)
{
    struct stream *s, *next;

    if (atomic_load_explicit(&e->inbox_n, memory_order_acquire) == 0)
        return;
    pthread_mutex_lock(&e->inbox_lock);
    for (s = e->inbox; s; s = next) {
        next = s->inbox_next;
        s->in_inbox = false;
        resume(e, s);
    }
    e->inbox = NULL;
    atomic_store_explicit(&e->inbox_n, 0, memory_order_relaxed);
    pthread_mutex_unlock(&e->inbox_lock);
}

static bool remove_from_inbox(struct engine *e, struct stream *s)
{
    bool found;

    pthread_mutex_lock(&e->inbox_lock);
    found = s->in_inbox;
    if (found) {
        LL_DELETE2(e->inbox, s, inbox_next);
        s->in_inbox = false;
        atomic_fetch_sub(&e->inbox_n, 1);
    }
    pthread_mutex_unlock(&e->inbox_lock);
    return found;
}

void engine_forget(struct engine *e, struct stream *s)
{
    if (s->run == RUN_ACTIVE)
        DL_DELETE(s->attach->active, s);
    timers_clear(&e->timers, &s->timer);
    failure_forget(s);
    /*
     * Inbox first: a waiter that was fired may have waited on something that is gone by now. Then
     * the list, and if it was fired in between, the inbox again. Lists are freed by the control
     * thread only, which is us.
     */
    if (!remove_from_inbox(e, s) && s->waiting_on && !waitlist_remove(s->waiting_on, &s->waiter))
        remove_from_inbox(e, s);
    s->waiting_on = NULL;
    s->callback = 0;
    s->run = RUN_IDLE;
    if (s->took)
        notify_give_back(s);
}

void engine_drop_task(struct stream *s)
{
    values_drop(s);
}

int engine_set_timer(struct stream *s, uint64_t deadline)
{
    return timers_set(&self->timers, &s->timer, deadline);
}

void engine_clear_timer(struct stream *s)
{
    timers_clear(&self->timers, &s->timer);
}

/* --- doorbells --- */

static bool collect_word(struct engine *e, struct attach *a, unsigned w, uint64_t now)
{
    uint64_t bits = atomic_exchange(&a->bell->word[w], 0);
    bool found = false;

    for (; bits; bits &= bits - 1) {
        struct stream *s =
            slots_get(&a->session->streams, w * 64 + (unsigned)__builtin_ctzll(bits));

        if (!s || s->attach != a)
            continue;
        if (s->run == RUN_IDLE) {
            activate(s, now);
            found = true;
        } else if (s->callback != 0 && task_callback_done(s)) {
            resume(e, s);
            found = true;
        }
    }
    return found;
}

static bool collect(struct engine *e, struct attach *a, uint64_t now)
{
    bool found = failure_can_retry(a) && failure_retry(a);

    /* Before the words: a bit raised after this exchange raises the summary again. */
    if (a->words == 0 && atomic_load_explicit(&a->bell->summary, memory_order_relaxed) != 0)
        a->words = atomic_exchange(&a->bell->summary, 0);
    for (unsigned n = 0; n < COLLECT_WORDS && a->words; n++) {
        found |= collect_word(e, a, (unsigned)__builtin_ctzll(a->words), now);
        a->words &= a->words - 1;
    }
    if (found)
        a->idle_since = now;
    return found;
}

/*
 * It rang, and there was no task. Who does so all the time keeps the engine from its sleep: no
 * honest client, and the session is ended. By its socket, which is where the control thread learns
 * of ends.
 */
static void rang_in_vain(struct attach *a)
{
    if (++a->vain != VAIN_MAX)
        return;
    log_client_fault(&a->session->log, "rings for tasks that are not there: session ended");
    shutdown(a->session->socket, SHUT_RDWR);
}

static void handle_doorbells(struct engine *e, const struct epoll_event *events, int n,
                             uint64_t now)
{
    for (int i = 0; i < n; i++) {
        uint64_t token = events[i].data.u64;
        struct attach_ref *ref;

        if (token == TOKEN_WAKE)
            continue;
        ref = slots_get_generation(&e->refs, (uint32_t)token, (uint32_t)(token >> 32));
        if (ref) {
            watch(e, ref->attach, now);
            if (!collect(e, ref->attach, now) && !ref->attach->active && !ref->attach->words)
                rang_in_vain(ref->attach);
        }
    }
}

int engine_attach(struct engine *e, struct attach *a)
{
    struct attach_ref *ref;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    int r = 0;

    engine_lock(e);
    ref = slots_take(&e->refs);
    if (!ref) {
        r = -ENOMEM;
        goto out;
    }
    ref->attach = a;
    atomic_store_explicit(&a->bell->mode, e->mode, memory_order_relaxed);
    slots_publish(ref);
    /* Edge-triggered: every write to an eventfd is an edge, so the counter never has to be read. */
    ev.data.u64 = (uint64_t)slot_generation(ref) << 32 | ref->slot.number;
    if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, a->fd, &ev) < 0) {
        r = -errno;
        slots_put(&e->refs, ref);
        goto out;
    }
    a->ref = ref;
out:
    engine_unlock(e);
    return r;
}

void engine_detach(struct engine *e, struct attach *a)
{
    if (!a->ref)
        return;
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, a->fd, NULL);
    slots_put(&e->refs, a->ref);
    a->ref = NULL;
    if (a->watched)
        DL_DELETE(e->watched, a);
    a->watched = false;
}

void engine_set_mode(struct engine *e, uint32_t mode)
{
    struct attach_ref *ref;

    e->mode = mode;
    slots_foreach (&e->refs, i, ref)
        atomic_store_explicit(&ref->attach->bell->mode, mode, memory_order_relaxed);
}

/*
 * Parked on neither a list, nor the clock, nor a callback: it is being aborted, and its queue is
 * somebody else's to read.
 */
static bool waits_for_something(const struct stream *s)
{
    return s->run == RUN_PARKED && (s->waiting_on || s->timer.place != 0 || s->callback != 0);
}

static void unpark_streams(struct engine *e, struct attach *a, int32_t result)
{
    struct stream *s;

    /*
     * By number: how far the table goes is the control thread's to know, but there is nothing
     * behind the first hole in its memory.
     */
    for (uint32_t i = 0; (s = slots_at(&a->session->streams, i)); i++) {
        if (!slot_live(s) || s->attach != a || !waits_for_something(s) ||
            (s->waiting_on && !waitlist_remove(s->waiting_on, &s->waiter)))
            continue;
        timers_clear(&e->timers, &s->timer);
        if (s->waiting_on)
            s->waiter.result = result;
        s->waiting_on = NULL;
        s->callback = 0;
        engine_unpark(s);
    }
}

void engine_unpark_all(struct engine *e, int32_t result)
{
    struct attach_ref *ref;

    slots_foreach (&e->refs, i, ref)
        unpark_streams(e, ref->attach, result);
}

void engine_each_attach(struct engine *e, void (*fn)(struct attach *a))
{
    struct attach_ref *ref;

    slots_foreach (&e->refs, i, ref)
        fn(ref->attach);
}

/* --- running --- */

/* True when the entry at head is there: a glance, which orders nothing. */
static bool entry_ready(const struct stream *s)
{
    return atomic_load_explicit(&s->ring[s->head & (s->depth - 1)].sequence,
                                memory_order_relaxed) == s->head + 1;
}

static bool fetch(struct stream *s)
{
    if (!stream_read_entry(s, s->head, &s->task))
        return false;
    __builtin_prefetch(&s->ring[(s->head + 1) & (s->depth - 1)]);
    s->taskless += (uint16_t)(s->task.taskless - (uint16_t)s->taskless);
    s->has_task = true;
    s->started = false;
    return true;
}

/* True when something was done. */
static bool run_stream(struct engine *e, struct stream *s, uint64_t now)
{
    uint64_t first = s->head;
    unsigned n;

    for (n = 0; n < BUDGET && (s->has_task || fetch(s)); n++) {
        enum run_result r = __builtin_expect(e->device->inject != NULL, 0) && task_is_new(s)
                                ? inject_execute(s, now)
                                : task_execute(s, now);

        if (r == RUN_RETIRED || r == RUN_WORKED) {
            s->has_task = false;
            s->head++;
        }
        if (r == RUN_RETIRED &&
            (n % TASKS_PER_TIME != TASKS_PER_TIME - 1 || clock_ns() - now < SLICE))
            continue;
        if (r == RUN_WAITS) {
            s->run = RUN_PARKED;
            s->parked_since = now;
            DL_DELETE(s->attach->active, s);
            if (s->stuck)
                failure_wait(s);
        }
        n++;
        break;
    }
    /* Of a stopped stream nothing more is done, though it goes through its tasks. */
    if (atomic_load_explicit(&s->done, memory_order_relaxed) != s->head &&
        atomic_load_explicit(&s->stopped, memory_order_relaxed) == 0)
        stream_publish(s, s->head);
    atomic_store_explicit(&e->tasks,
                          atomic_load_explicit(&e->tasks, memory_order_relaxed) + s->head - first,
                          memory_order_relaxed);
    return n > 0;
}

/* Stop looking at the ring of s. False when a task came in between. */
static bool demote_stream(struct stream *s)
{
    if (!stream_unwatch(s->ctrl, &s->ring[s->head & (s->depth - 1)], s->head))
        return false;
    DL_DELETE(s->attach->active, s);
    s->run = RUN_IDLE;
    if (s->rung)
        rang_in_vain(s->attach);
    return true;
}

static bool demote_attach(struct engine *e, struct attach *a, uint64_t now)
{
    if (!doorbell_unwatch(a->bell) || a->words || failure_can_retry(a)) {
        atomic_store(&a->bell->watched, 1);
        a->idle_since = now;
        return false;
    }
    DL_DELETE(e->watched, a);
    a->watched = false;
    return true;
}

/* Time is up for this pass: who was not reached is first in the next one. */
static void rotate_streams(struct attach *a, struct stream *next)
{
    for (struct stream *s; next && (s = a->active) != next;) {
        DL_DELETE(a->active, s);
        DL_APPEND(a->active, s);
    }
}

static void rotate_attaches(struct engine *e, struct attach *next)
{
    for (struct attach *a; next && (a = e->watched) != next;) {
        DL_DELETE(e->watched, a);
        DL_APPEND(e->watched, a);
    }
}

/*
 * One session's share of a turn: its streams in rotation, until all had theirs or the slice is
 * over. Sessions take turns, not streams, so that many streams get no more than few.
 */
static bool run_attach(struct engine *e, struct attach *a, uint64_t now)
{
    uint64_t start = now;
    struct stream *s, *tmp;
    unsigned idle = 0;
    bool worked = false;

    DL_FOREACH_SAFE (a->active, s, tmp) {
        if (run_stream(e, s, now)) {
            worked = true;
            s->rung = false;
            a->vain = 0;
            s->idle_since = a->idle_since = now;
        } else {
            if (s->run == RUN_ACTIVE && now - s->idle_since > e->spin_max)
                demote_stream(s);
            if (++idle % LOOKS_PER_TIME != 0)
                continue;
        }
        if (!tmp)
            break;
        now = clock_ns();
        if (now - start > SLICE) {
            rotate_streams(a, tmp);
            break;
        }
    }
    return worked;
}

static bool run_all(struct engine *e, uint64_t now)
{
    struct attach *a, *tmp;
    bool worked = false;

    DL_FOREACH_SAFE (e->watched, a, tmp) {
        if (!run_attach(e, a, now))
            continue;
        worked = true;
        if (tmp)
            now = clock_ns();
        if (atomic_load_explicit(&e->wanted, memory_order_relaxed) != 0) {
            rotate_attaches(e, tmp);
            break;
        }
    }
    return worked;
}

static void run_timers(struct engine *e, uint64_t now)
{
    struct timer *timer;

    while ((timer = timers_first(&e->timers)) && timer->deadline <= now) {
        struct stream *s = (struct stream *)((char *)timer - offsetof(struct stream, timer));

        timers_clear(&e->timers, &s->timer);
        if (s->waiting_on && !waitlist_remove(s->waiting_on, &s->waiter))
            continue; /* fired at the same moment: the inbox will bring it, in time after all */
        if (s->waiting_on)
            s->waiter.result = ACL_ERROR_RT_TASK_TIMEOUT;
        resume(e, s);
    }
}

/* --- idling --- */

static void stop_spinning(struct engine *e)
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
    struct attach *a, *atmp;
    struct stream *s, *stmp;
    bool all = true;

    DL_FOREACH_SAFE (e->watched, a, atmp) {
        DL_FOREACH_SAFE (a->active, s, stmp)
            all &= demote_stream(s);
        all &= !a->active && demote_attach(e, a, now);
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
    n = epoll_pwait2(e->epoll, events, EPOLL_BATCH, timeout, NULL);
    if (n < 0 && errno != EINTR) /* before Linux 5.11, or filtered: milliseconds must do */
        n = epoll_wait(e->epoll, events, EPOLL_BATCH,
                       timeout ? (int)(ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1) : -1);
    pthread_mutex_lock(&e->lock);
    return n;
}

static void go_to_sleep(struct engine *e)
{
    struct epoll_event events[EPOLL_BATCH];
    uint64_t slept, now;
    int n;

    stop_spinning(e);
    atomic_store(&e->sleeping, true);
    if (atomic_load(&e->inbox_n) != 0 || atomic_load(&e->stop)) {
        atomic_store_explicit(&e->sleeping, false, memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&e->turn_since, 0, memory_order_relaxed);
    slept = clock_ns();
    n = wait_events(e, events);
    now = clock_ns();
    atomic_store_explicit(&e->sleeping, false, memory_order_relaxed);
    atomic_store_explicit(&e->turn_since, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->wakeups, 1, memory_order_relaxed);
    /*
     * Adaptive: a sleep that spinning would have saved restores the full spin time; a spin in vain
     * halves it. An engine that shares its CPU with its clients never finds anything by spinning,
     * and stops.
     */
    e->spin = now - slept < 2 * e->spin_max ? e->spin_max : e->spin / 2;
    e->last_poll = now;
    e->idle_since = now;
    if (n > 0)
        handle_doorbells(e, events, n, now);
}

/*
 * Is there anything to do? A glance at what clients and other threads write, without a system call
 * or a clock.
 */
static bool glance(const struct engine *e)
{
    const struct attach *a;
    const struct stream *s;

    if (atomic_load_explicit(&e->wanted, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&e->inbox_n, memory_order_relaxed) != 0)
        return true;
    DL_FOREACH (e->watched, a) {
        unsigned n = 0;

        if (a->words || atomic_load_explicit(&a->bell->summary, memory_order_relaxed) != 0 ||
            failure_can_retry(a))
            return true;
        DL_FOREACH (a->active, s) {
            if (entry_ready(s))
                return true;
            if (++n == GLANCE_STREAMS)
                break; /* the full turn looks at all */
        }
    }
    return false;
}

static void idle(struct engine *e, uint64_t now)
{
    if (now - e->idle_since < e->spin && may_spin(e)) {
        for (int i = 0; i < SPIN_LOOKS && !glance(e); i++)
            cpu_relax();
        return;
    }
    if (demote_all(e, now))
        go_to_sleep(e);
}

/* Doorbells of sessions that are not watched show up only here while the engine is awake. */
static void poll_doorbells(struct engine *e, uint64_t now)
{
    struct epoll_event events[EPOLL_BATCH];

    if (now - e->last_poll <= POLL_INTERVAL)
        return;
    e->last_poll = now;
    handle_doorbells(e, events, epoll_wait(e->epoll, events, EPOLL_BATCH, 0), now);
}

static void turn(struct engine *e)
{
    uint64_t now = clock_ns();
    struct attach *a, *tmp;

    e->now = now;
    atomic_store_explicit(&e->turn_since, now, memory_order_relaxed);
    drain_inbox(e);
    run_timers(e, now);
    DL_FOREACH_SAFE (e->watched, a, tmp) {
        /*
         * With work elsewhere the engine stays awake, but need not look at sessions that have none.
         */
        if (!collect(e, a, now) && !a->active && now - a->idle_since > e->spin_max)
            demote_attach(e, a, now);
    }
    poll_doorbells(e, now);
    if (run_all(e, now)) {
        /*
         * It keeps its place among the spinners until it sleeps: asking anew after each task costs
         * a system call.
         */
        if (e->spinning)
            e->spin = e->spin_max;
        e->idle_since = now;
    } else {
        idle(e, now);
    }
}

static void *engine_main(void *arg)
{
    struct engine *e = arg;
    char name[16];

    self = e;
    snprintf(name, sizeof(name), "engine-%u", e->device->index);
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK,
          1UL); /* delays and timeouts to the microsecond, not to the default 50 */
    pthread_mutex_lock(&e->lock);
    while (!atomic_load_explicit(&e->stop, memory_order_relaxed)) {
        let_others_in(e);
        turn(e);
    }
    stop_spinning(e);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* --- life --- */

struct engine *engine_new(struct device *device, uint64_t spin_ns)
{
    struct engine *e = calloc(1, sizeof(*e));
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = TOKEN_WAKE};

    if (!e)
        return NULL;
    e->device = device;
    e->spin_max = e->spin = spin_ns;
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->gate, NULL);
    pthread_mutex_init(&e->inbox_lock, NULL);
    slots_init(&e->refs, sizeof(struct attach_ref), 1u << 18, 0);
    if (e->epoll >= 0 && e->wake >= 0 && epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->wake, &ev) == 0 &&
        pthread_create(&e->thread, NULL, engine_main, e) == 0)
        return e;
    log_error("device %u: engine not started: no memory, descriptors or threads", device->index);
    e->thread = 0;
    engine_free(e);
    return NULL;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    if (e->thread) {
        atomic_store(&e->stop, true);
        wake(e);
        pthread_join(e->thread, NULL);
    }
    timers_deinit(&e->timers);
    slots_deinit(&e->refs);
    if (e->epoll >= 0)
        close(e->epoll);
    if (e->wake >= 0)
        close(e->wake);
    pthread_mutex_destroy(&e->inbox_lock);
    pthread_mutex_destroy(&e->gate);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

uint64_t engine_stuck_ms(struct engine *e)
{
    uint64_t since = atomic_load_explicit(&e->turn_since, memory_order_relaxed);
    uint64_t now = clock_ns();

    return since == 0 || now < since ? 0 : (now - since) / NSEC_PER_MSEC;
}

void engine_get_stats(struct engine *e, struct engine_stats *stats)
{
    *stats = (struct engine_stats){
        .tasks = atomic_load_explicit(&e->tasks, memory_order_relaxed),
        .wakeups = atomic_load_explicit(&e->wakeups, memory_order_relaxed),
        .asleep = atomic_load_explicit(&e->sleeping, memory_order_relaxed),
    };
}
