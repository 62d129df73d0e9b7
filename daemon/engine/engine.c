#include "daemon/engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/core/device.h"
#include "daemon/core/notify.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/engine/detour.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/graph.h"
#include "daemon/engine/notify_tasks.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/trace_note.h"
#include "daemon/engine/work.h"
#include "daemon/kept/blame.h"
#include "daemon/kept/kept.h"
#include "proto/util/clock.h"

#define BUDGET 64 /* tasks of one stream per turn */
/* Streams that are looked at before the clock is: a session can have many with nothing in them. */
#define LOOKS_PER_TIME 64
/* Streams that go on in a turn, before that is a step of its own. */
#define UNTIMED_MAX 16
/*
 * Streams that go on in a turn, of those that others have let go, and of those whose time is over:
 * tens of thousands can at the same moment. The rest goes on in the next turns, in the same order.
 */
#define RESUMES_MAX 32
/*
 * Of one user, before the next has its turn, and of one of its sessions. A user that keeps its
 * streams full adds this to each step of the others; an IPC ping-pong has half a dozen of them in
 * 20 us.
 */
#define SLICE (4 * NSEC_PER_USEC)

static __thread struct engine *self;

/* --- parking --- */

void engine_resume(struct engine *e, struct stream *s)
{
    assert(s->run == RUN_PARKED);
    timers_clear(&e->timers, &s->timer);
    usage_end_work(e, s, e->now);
    s->waiting_on = NULL;
    s->in_callback = false;
    if (__builtin_expect(!s->attach->ref, 0)) {
        s->run = RUN_IDLE; /* its session is halted */
        return;
    }
    s->run = RUN_ACTIVE;
    e->resumed = true;
    s->idle_since = e->now;
    DL_APPEND(s->attach->active, s);
    watch_attach(e, s->attach, e->now);
}

int engine_watch_wake(struct engine *e, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = WATCH_TOKEN_WAKE};

    return epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int engine_lend_wake(struct engine *e)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), r;

    if (fd < 0)
        return -errno;
    r = engine_watch_wake(e, fd);
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

void engine_end_wake(struct engine *e, int fd)
{
    if (fd < 0)
        return;
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

void engine_wake(struct engine *e)
{
    /* Cannot fail: the counter would need 2^64 wake-ups. */
    eventfd_write(e->wake, 1);
}

void engine_unpark(struct stream *s)
{
    struct engine *e = s->attach->device->engine;
    bool first;

    /* The one that runs is not parked yet. It will be when the inbox is looked at. */
    if (e == self && s->run == RUN_PARKED) {
        engine_resume(e, s);
        return;
    }
    pthread_mutex_lock(&e->inbox_lock);
    first = !e->inbox;
    s->in_inbox = true;
    DL_APPEND2(e->inbox, s, inbox_prev, inbox_next);
    atomic_fetch_add(&e->inbox_n, 1);
    pthread_mutex_unlock(&e->inbox_lock);
    /*
     * Dekker with go_to_sleep(): inbox_n, then sleeping; there sleeping, then inbox_n. By the first
     * one: an engine does not sleep while there are others, and thousands can come at once.
     */
    if (first && atomic_load(&e->sleeping))
        engine_wake(e);
}

/* Under the inbox lock. */
static void take_from_inbox(struct engine *e, struct stream *s)
{
    DL_DELETE2(e->inbox, s, inbox_prev, inbox_next);
    s->in_inbox = false;
    atomic_fetch_sub_explicit(&e->inbox_n, 1, memory_order_relaxed);
}

/* Returns how many streams go on. */
static unsigned drain_inbox(struct engine *e)
{
    struct stream *s;
    unsigned n = 0;

    if (atomic_load_explicit(&e->inbox_n, memory_order_acquire) == 0)
        return 0;
    pthread_mutex_lock(&e->inbox_lock);
    for (; n < RESUMES_MAX && (s = e->inbox); n++) {
        take_from_inbox(e, s);
        engine_resume(e, s);
    }
    pthread_mutex_unlock(&e->inbox_lock);
    return n;
}

static bool remove_from_inbox(struct engine *e, struct stream *s)
{
    bool found;

    pthread_mutex_lock(&e->inbox_lock);
    found = s->in_inbox;
    if (found)
        take_from_inbox(e, s);
    pthread_mutex_unlock(&e->inbox_lock);
    return found;
}

void engine_forget(struct engine *e, struct stream *s)
{
    if (s->run == RUN_ACTIVE)
        DL_DELETE(s->attach->active, s);
    timers_clear(&e->timers, &s->timer);
    if (s->in_work)
        usage_count_end(e, s, clock_ns());
    failure_forget(s);
    /*
     * Inbox first: a waiter that was fired may have waited on something that is gone by now. Then
     * the list, and if it was fired in between, the inbox again. Lists are freed by the control
     * thread only.
     */
    if (!remove_from_inbox(e, s) && s->waiting_on && !waitlist_remove(s->waiting_on, &s->waiter))
        remove_from_inbox(e, s);
    s->waiting_on = NULL;
    s->in_callback = false;
    s->run = RUN_IDLE;
    if (notify_has_taken(s))
        notify_give_back(s);
}

int engine_set_timer(struct stream *s, uint64_t deadline)
{
    return timers_set(&s->attach->device->engine->timers, &s->timer, deadline);
}

void engine_clear_timer(struct stream *s)
{
    timers_clear(&self->timers, &s->timer);
}

/* A stream that is parked on none of these is in the inbox. */
static bool waits_for_something(const struct stream *s)
{
    return s->run == RUN_PARKED && !s->in_inbox &&
           (s->waiting_on || s->timer.place != 0 || s->in_callback || s->away);
}

static void work_is_over(struct work *work)
{
    struct stream *s = (struct stream *)((char *)work - offsetof(struct stream, work));

    /* It may be held, or have been let go on for another reason, which is in the inbox. */
    if (s->run == RUN_PARKED && !s->in_inbox)
        engine_resume(self, s);
}

bool engine_has_others(const struct stream *s)
{
    return s->attach->active != s || s->next || self->users->next || self->users->watched->next;
}

bool engine_poll(struct engine *e)
{
    struct device *d = e->device;

    if (!d->backend->poll)
        return false;
    e->resumed = false;
    d->backend->poll(d->backend_state, d->index, work_is_over);
    return e->resumed;
}

/* It is parked. What it waits for is not to come, unless that lets it go at this moment. */
static void end_wait(struct engine *e, struct stream *s, int32_t result)
{
    if (s->waiting_on && !waitlist_remove(s->waiting_on, &s->waiter))
        return;
    timers_clear(&e->timers, &s->timer);
    if (s->waiting_on)
        stream_let_go(s, result, 0);
    s->waiting_on = NULL;
    s->in_callback = false;
    engine_unpark(s);
}

void engine_unpark_attach(struct engine *e, struct attach *a, int32_t result)
{
    struct stream *s;

    /*
     * By number: how far the table goes is the control thread's to know, but there is nothing
     * behind the first hole in its memory.
     */
    for (uint32_t i = 0; (s = slots_at(&a->session->streams, i)); i++) {
        if (slot_live(s) && s->attach == a && waits_for_something(s))
            end_wait(e, s, result);
    }
}

void engine_unpark_all(struct engine *e, int32_t result)
{
    struct attach_ref *ref;

    slots_foreach (&e->refs, i, ref)
        engine_unpark_attach(e, ref->attach, result);
}

/* --- running --- */

/* A function of its own: time_step() is on the way from a task to the engine's look at it. */
static __attribute__((cold, noinline)) void judge_step(struct engine *e, uint64_t now)
{
    const struct step step = {
        .what = task_name(e->worked_op), .uid = e->worked_uid, .session = e->worked_session};

    step_meter_judge(&e->meter, now, &step);
}

/* The clock was read: what was done since it was read before is a step. */
static inline void time_step(struct engine *e, uint64_t now)
{
    if (e->worked && step_meter_seems_long(&e->meter, now))
        judge_step(e, now);
    usage_end_step(e, now);
    e->worked = false;
    step_meter_begin(&e->meter, now);
}

static bool fetch_task(struct stream *s)
{
    struct stream_kept *k = s->live;

    if (__builtin_expect(s->graph != NULL, 0)) {
        graph_fetch(s);
        return true;
    }
    if (!stream_read_entry(s, k->position, &k->task)) {
        if (__builtin_expect(s->ahead, 0))
            engine_leave_work(s); /* the client has taken it back */
        return false;
    }
    KILL_HERE(TASK_READ);
    stream_count_implicit(k);
    if (__builtin_expect(s->ahead, 0))
        work_check_given(s);
    return true;
}

/* At most max tasks. True when something was done. */
static bool run_stream(struct engine *e, struct stream *s, uint64_t now, unsigned max)
{
    uint64_t first = s->live->position;
    unsigned n;

    for (n = 0; n < max && (stream_has_read(s) || fetch_task(s)); n++) {
        enum run_result r =
            __builtin_expect(e->device->detour, 0) ? detour_execute(s, now) : execute_task(s, now);

        if (r == RUN_RETIRED || r == RUN_WORKED) {
            KILL_HERE(TASK_DONE);
            kept_order();
            if (__builtin_expect(s->graph != NULL, 0))
                graph_advance(s);
            else
                s->live->position++;
            kept_order();
            KILL_HERE(TASK_RETIRED);
        }
        if (r == RUN_RETIRED &&
            (n % TASKS_PER_TIME != TASKS_PER_TIME - 1 || clock_ns() - now < SLICE))
            continue;
        if (r == RUN_WAITS) {
            s->parked_since = now;
            DL_DELETE(s->attach->active, s);
            if (s->run == RUN_STUCK)
                failure_wait(s);
            else
                s->run = RUN_PARKED;
            if (__builtin_expect(s->attach->lost != 0, 0) && s->waiting_on)
                end_wait(e, s, s->attach->lost);
        }
        n++;
        break;
    }
    /* Of a stopped stream nothing more is done, though it goes through its tasks. */
    if (atomic_load_explicit(&s->live->done, memory_order_relaxed) != s->live->position &&
        atomic_load_explicit(&s->stopped, memory_order_relaxed) == 0)
        stream_publish(s, s->live->position);
    if (__builtin_expect(e->device->detour, 0))
        trace_note_write();
    atomic_store_explicit(&e->tasks,
                          atomic_load_explicit(&e->tasks, memory_order_relaxed) +
                              s->live->position - first,
                          memory_order_relaxed);
    return n > 0;
}

static void note_work(struct engine *e, struct stream *s, uint64_t now)
{
    struct attach *a = s->attach;

    e->worked = true;
    e->worked_op = s->live->task.op;
    e->worked_uid = a->user->uid;
    e->worked_session = a->session->id;
    s->rung = false;
    a->spurious = 0;
    s->idle_since = a->idle_since = now;
}

bool engine_run_quick(struct engine *e, struct stream *s, uint64_t now)
{
    const struct task *task = &s->live->task;
    const struct task_row *row;
    bool timed;

    /* Rules need the time; a task that was read has begun, or will be run by the full turn. */
    if (e->device->inject || stream_has_read(s) || !fetch_task(s))
        return false;
    row = task_row(task->op);
    if (!task_is_quick(row, task))
        return false;
    /*
     * The device works: for how long is counted, and the glances before do not belong to it. Of few
     * bytes the count is an estimate. To look at the clock is not needed for the step: it may have
     * as many small moves without that as it has other tasks, here as in a full turn.
     */
    timed = row->writes != 0 && task_word(task, row->size) > WORK_TINY;
    if (timed)
        time_step(e, now = clock_ns());
    if (__builtin_expect(e->device->trace != NULL, 0))
        trace_note_quick(s, now, !timed);
    e->resumed = false;
    kept_in_hand(e->in_hand, s->session->id, 0);
    run_stream(e, s, now, 1);
    kept_in_hand(e->in_hand, 0, 0);
    note_work(e, s, now);
    if (timed)
        time_step(e, clock_ns());
    else if (e->did_work)
        usage_count_tiny(e);
    return true;
}

/*
 * Time is up for this pass: the first stream, session or user that was not reached begins the next
 * one.
 */
static void rotate_streams(struct attach *a, struct stream *next)
{
    for (struct stream *s; next && (s = a->active) != next;) {
        DL_DELETE(a->active, s);
        DL_APPEND(a->active, s);
    }
}

static void rotate_attaches(struct engine_user *u, struct attach *next)
{
    for (struct attach *a; next && (a = u->watched) != next;) {
        DL_DELETE(u->watched, a);
        DL_APPEND(u->watched, a);
    }
}

static void rotate_users(struct engine *e, struct engine_user *next)
{
    for (struct engine_user *u; next && (u = e->users) != next;) {
        DL_DELETE(e->users, u);
        DL_APPEND(e->users, u);
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

    kept_in_hand(e->in_hand, a->session->id, 0);
    DL_FOREACH_SAFE (a->active, s, tmp) {
        if (run_stream(e, s, now, BUDGET)) {
            note_work(e, s, now);
            worked = true;
        } else {
            if (s->run == RUN_ACTIVE && now - s->idle_since > e->spin_max)
                watch_drop_stream(s);
            if (++idle % LOOKS_PER_TIME != 0)
                continue;
        }
        if (!tmp)
            break;
        now = clock_ns();
        time_step(e, now);
        if (now - start > SLICE) {
            rotate_streams(a, tmp);
            break;
        }
    }
    return worked;
}

static bool is_lock_wanted(const struct engine *e)
{
    return atomic_load_explicit(&e->lock_waiters, memory_order_relaxed) != 0;
}

/* What a session's doorbell brings, and its streams. True when something was done. */
static bool look_at_attach(struct engine *e, struct attach *a, uint64_t now)
{
    /*
     * With work elsewhere the engine stays awake, but need not look at sessions that have none.
     */
    if (!watch_collect(e, a, now) && !a->active && now - a->idle_since > e->spin_max) {
        watch_drop_attach(e, a, now);
        return false;
    }
    return run_attach(e, a, now);
}

/*
 * One user's share of a turn: its sessions in rotation, until all had theirs or the slice is over.
 */
static bool run_user(struct engine *e, struct engine_user *u, uint64_t now)
{
    uint64_t start = now;
    struct attach *a, *tmp;
    unsigned idle = 0;
    bool worked = false;

    DL_FOREACH_SAFE (u->watched, a, tmp) {
        if (look_at_attach(e, a, now))
            worked = true;
        else if (++idle % LOOKS_PER_TIME != 0)
            continue;
        if (!tmp)
            break;
        now = clock_ns();
        time_step(e, now);
        if (now - start > SLICE || is_lock_wanted(e)) {
            rotate_attaches(u, tmp);
            break;
        }
    }
    return worked;
}

static bool run_all(struct engine *e, uint64_t now)
{
    struct engine_user *u, *tmp;
    bool worked = false;

    DL_FOREACH_SAFE (e->users, u, tmp) {
        if (!run_user(e, u, now))
            continue;
        worked = true;
        if (tmp) {
            now = clock_ns();
            time_step(e, now);
        }
        if (is_lock_wanted(e)) {
            rotate_users(e, tmp);
            break;
        }
    }
    return worked;
}

/* Returns how many have fired. */
static unsigned run_timers(struct engine *e, uint64_t now)
{
    struct timer *timer;
    unsigned n = 0;

    for (; n < RESUMES_MAX && (timer = timers_first(&e->timers)) && timer->deadline <= now; n++) {
        struct stream *s = (struct stream *)((char *)timer - offsetof(struct stream, timer));

        timers_clear(&e->timers, &s->timer);
        if (s->waiting_on && !waitlist_remove(s->waiting_on, &s->waiter))
            continue; /* fired at the same moment: the inbox will bring it, in time after all */
        if (s->waiting_on)
            stream_let_go(s, ACL_ERROR_RT_TASK_TIMEOUT, 0);
        engine_resume(e, s);
    }
    return n;
}

static void run_turn(struct engine *e)
{
    uint64_t now = clock_ns();
    bool worked;

    e->now = now;
    atomic_store_explicit(&e->turn_since, now, memory_order_relaxed);
    time_step(e, now);
    if (drain_inbox(e) + run_timers(e, now) > UNTIMED_MAX)
        step_meter_end(&e->meter, clock_ns(),
                       &(struct step){.what = "streams that go on", .uid = geteuid()});
    if (watch_poll_is_due(e, now))
        watch_poll(e, now);
    engine_poll(e);
    worked = run_all(e, now);
    kept_in_hand(e->in_hand, 0, 0);
    if (worked) {
        /*
         * It keeps its place among the spinners until it sleeps: asking anew after each task costs
         * a system call.
         */
        if (e->spinning)
            e->spin = e->spin_max;
        e->idle_since = now;
    } else {
        idle_turn(e, now);
    }
}

#ifdef NPUD_ENGINE_TURN
/* For a driver that has no threads: tests/fuzz/hooks/engine.h. */
void engine_turn(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    self = e;
    run_turn(e);
    self = NULL;
    pthread_mutex_unlock(&e->lock);
}
#endif

static void *engine_main(void *arg)
{
    struct engine *e = arg;
    char name[16];

    self = e;
    blame_thread_is(e->device->index);
    snprintf(name, sizeof(name), "engine-%u", e->device->index);
    pthread_setname_np(pthread_self(), name);
    /* Delays and timeouts to the microsecond, not to the default 50. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    step_meter_attach(&e->meter);
    sem_post(&e->begun);
    pthread_mutex_lock(&e->lock);
    while (!atomic_load_explicit(&e->stop, memory_order_relaxed)) {
        engine_let_others_in(e);
        run_turn(e);
    }
    idle_stop_spinning(e);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* --- life --- */

struct engine *engine_new(struct device *device, uint64_t spin_ns)
{
    struct engine *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->device = device;
    e->in_hand = kept_in_hand_of(device->index);
    e->spin_max = e->spin = spin_ns;
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->gate, NULL);
    pthread_mutex_init(&e->inbox_lock, NULL);
    sem_init(&e->begun, 0, 0);
    step_meter_init(&e->meter);
    slots_init(&e->refs, sizeof(struct attach_ref), 1u << 18, 0);
    if (e->epoll >= 0 && e->wake >= 0 && engine_watch_wake(e, e->wake) == 0)
        return e;
    log_error("device %u: its engine cannot be made: no memory or descriptors", device->index);
    engine_free(e);
    return NULL;
}

int engine_start(struct engine *e)
{
    if (pthread_create(&e->thread, NULL, engine_main, e) == 0) {
        while (sem_wait(&e->begun) < 0)
            continue; /* a signal */
        return 0;
    }
    log_error("device %u: its engine cannot be started: no memory or threads", e->device->index);
    e->thread = 0;
    return -ENOMEM;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    if (e->thread) {
        atomic_store(&e->stop, true);
        engine_wake(e);
        pthread_join(e->thread, NULL);
    }
    timers_deinit(&e->timers);
    slots_deinit(&e->refs);
    if (e->epoll >= 0)
        close(e->epoll);
    if (e->wake >= 0)
        close(e->wake);
    step_meter_deinit(&e->meter);
    sem_destroy(&e->begun);
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
    step_meter_longest(&e->meter, &stats->longest);
    step_meter_waited(&e->meter, &stats->waited);
}
