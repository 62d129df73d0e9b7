#include "client/core/wait.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utlist.h>

#include "client/core/api_call.h"
#include "client/core/interrupt.h"
#include "client/core/thread.h"
#include "client/core/trace_writer.h"
#include "proto/shm/doorbell.h"
#include "client/core/npud_clock.h"
#include "proto/util/futex.h"
#include "proto/shm/ipc_page.h"
#include "proto/shm/stream_shm.h"
#include "proto/util/lift_fd.h"

/* A thread that does not get to look for so long counts as one that sleeps on. */
#define ASK_NS NSEC_PER_SEC

/*
 * A thread that sleeps, on its own stack. The five kinds of sleep are one list, because the death
 * of npud and the end of the last device wake them alike:
 *
 *   wait_position(), _or()   done of the stream     ctrl, position, discarded; leave, keeps_event
 *   wait_record()            word of the IPC page   due_at, keeps_slot, leave, keeps_event
 *   wait_callback_word()     word of the thread     no more
 *   wait_queue()             wake of the ring       fixed
 *   wait_grant()             grants of the page     no more
 */
struct wait {
    _Atomic uint32_t *word;
    struct wait *prev, *next;
    struct wait_slot *slot; /* NULL: more threads sleep than the report can show */
    uint32_t what;          /* of its wait_info */
    bool fixed;             /* word may be mapped read-only: it is not ours to change */
    bool keeps_event;       /* the caller uses an event afterwards that it found before */
    bool keeps_slot;        /* the caller gives it back */
    _Atomic uint32_t looks; /* how often its thread has looked and found that it must sleep */
    uint32_t asked_at; /* looks, when wait_any_without_device() asked first. Under waits.lock */
    bool asked;
    _Atomic int32_t *leave; /* or NULL: see wait_leave() */
    uint64_t due_at;        /* for wait_wake_due(); 0: never. Under waits.lock */
    _Atomic bool due;
    /* For a position of a stream, and what became of it: see wait_discarded(). Under waits.lock. */
    const struct stream_ctrl *ctrl;
    uint64_t position;
    int32_t discarded;
};

__thread const struct wait_hook *wait_hook;

void wait_init(struct waits *all, struct session *session, const _Atomic bool *lost)
{
    all->session = session;
    all->lost = lost;
    all->timer = -1;
    all->timer_at = WAIT_FOREVER;
    lock_order_know(&all->lock, LOCK_WAITS);
}

int wait_open_timer(struct waits *all)
{
    all->timer = lift_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    return all->timer < 0 ? -errno : 0;
}

void wait_deinit(struct waits *all)
{
    if (all->timer >= 0)
        close(all->timer);
}

uint64_t wait_deadline(int64_t ms)
{
    return ms < 0 ? WAIT_FOREVER : clock_ns() + (uint64_t)ms * NSEC_PER_MSEC;
}

/* --- the list of sleepers, and the slots that npud reads. Under waits.lock --- */

static struct wait_slot *slot_take(struct waits *all)
{
    for (uint32_t w = 0; w < WAIT_SLOTS / 64; w++) {
        uint64_t free_bits = ~all->slots[w];
        uint32_t n;

        if (free_bits == 0)
            continue;
        n = w * 64 + (uint32_t)__builtin_ctzll(free_bits);
        all->slots[w] |= free_bits & -free_bits;
        if (n >= atomic_load_explicit(&all->page->waits_used, memory_order_relaxed))
            atomic_store_explicit(&all->page->waits_used, n + 1, memory_order_relaxed);
        return &all->page->waits[n];
    }
    return NULL;
}

static void slot_put(struct waits *all, struct wait_slot *slot)
{
    uint32_t n = (uint32_t)(slot - all->page->waits);

    assert(all->slots[n / 64] >> n % 64 & 1);
    wait_slot_clear(slot);
    all->slots[n / 64] &= ~(UINT64_C(1) << n % 64);
}

/*
 * One timer for all, set when a thread is due before it fires: while threads sleep for a moment,
 * again and again, that is once a second. With a time limit for each sleep the kernel sets a timer
 * and cancels it each time, which is 2 us of a round trip of 30 us between two processes.
 */
static void set_timer(struct waits *all, uint64_t at)
{
    const struct itimerspec once = {.it_value = timespec_from_ns(at)};

    all->timer_at = at;
    timerfd_settime(all->timer, TFD_TIMER_ABSTIME, &once, NULL);
}

void wait_wake_due(struct waits *all)
{
    uint64_t now = clock_ns(), next = WAIT_FOREVER, times;
    struct wait *w;

    biased_lock_take(&all->lock);
    (void)!read(all->timer, &times, sizeof(times)); /* it may have been set again meanwhile */
    DL_FOREACH (all->first, w) {
        if (w->due_at == 0)
            continue;
        if (w->due_at > now) {
            next = w->due_at < next ? w->due_at : next;
            continue;
        }
        w->due_at = 0;
        /* Before the word changes: the thread sees it, or does not sleep. */
        atomic_store_explicit(&w->due, true, memory_order_relaxed);
        atomic_fetch_add_explicit(w->word, 1, memory_order_release);
        futex_wake_all(w->word);
    }
    all->timer_at = next;
    if (next != WAIT_FOREVER)
        set_timer(all, next);
    biased_lock_give(&all->lock);
}

#define SINCE_COUNT_BITS 21 /* 2 ms */

/*
 * When a sleep begins, for reports. npud takes a slot that still says the same for a thread that
 * has slept all the time (daemon/admin/wait_graph.c), and many sleeps begin at one time of a clock
 * that ticks: so the low bits count them. Never in the future.
 */
static uint64_t time_of_sleep(struct waits *all)
{
    uint64_t ticks = (npud_clock_from(clock_coarse_ns()) >> SINCE_COUNT_BITS) - 1;

    return ticks << SINCE_COUNT_BITS | (all->begun++ & ((1u << SINCE_COUNT_BITS) - 1));
}

/*
 * Registered before the sequence word and `lost` are read: the watcher sets `lost` and then bumps
 * the words of all threads on the list. So a thread either sees `lost`, or its sleep ends at once
 * because the word has changed.
 */
static void add_sleeper(struct waits *all, struct wait *w, struct wait_info *info)
{
    w->what = info->what & WAIT_KIND_MASK;
    biased_lock_take(&all->lock);
    DL_APPEND(all->first, w);
    if (info->since_ns == 0)
        info->since_ns = time_of_sleep(all);
    if (!w->slot) {
        w->slot = slot_take(all);
        if (w->slot)
            wait_slot_fill(w->slot, info);
    }
    if (w->due_at != 0 && w->due_at < all->timer_at)
        set_timer(all, w->due_at);
    KILL_POINT(SLEEP_LISTED);
    biased_lock_give(&all->lock);
}

static void remove_sleeper(struct waits *all, struct wait *w)
{
    biased_lock_take(&all->lock);
    DL_DELETE(all->first, w);
    KILL_POINT(SLEEP_CLEAR);
    if (w->slot && !w->keeps_slot)
        slot_put(all, w->slot);
    KILL_POINT(SLEEP_CLEARED);
    biased_lock_give(&all->lock);
}

bool wait_wake_all(struct waits *all)
{
    bool again = false;
    struct wait *w;

    biased_lock_take(&all->lock);
    DL_FOREACH (all->first, w) {
        /* npud is not there to be confused, and other processes on the same word only look once
         * more. */
        if (w->fixed)
            again = true;
        else
            atomic_fetch_add(w->word, 1);
        futex_wake_all(w->word);
    }
    biased_lock_give(&all->lock);
    return again;
}

/*
 * A thread may have seen `lost` clear, and be about to sleep on a word that is not changed for it.
 * It is within a few instructions of its sleep: so threads are woken until all have left the list.
 */
void wait_abort_all(struct waits *all)
{
    const struct timespec pause = {.tv_nsec = NSEC_PER_MSEC};

    while (wait_wake_all(all))
        nanosleep(&pause, NULL);
}

enum stays { LEFT, UNKNOWN, STAYS };

/*
 * Has the thread looked again since it was asked, and gone to sleep once more? Twice: the first
 * look may have begun before it was asked.
 */
static enum stays ask_sleeper(struct wait *w)
{
    uint32_t looks = atomic_load_explicit(&w->looks, memory_order_relaxed);

    if (w->what == WAIT_POSITION || w->what == WAIT_CALLBACK)
        return LEFT;
    if (!w->asked)
        w->asked_at = looks;
    w->asked = true;
    if (looks - w->asked_at >= 2)
        return STAYS;
    futex_wake_all(w->word);
    return UNKNOWN;
}

static enum stays ask_sleepers(struct waits *all, bool anew)
{
    enum stays stays = LEFT;
    struct wait *w;

    biased_lock_take(&all->lock);
    DL_FOREACH (all->first, w) {
        enum stays one;

        if (anew)
            w->asked = false;
        one = ask_sleeper(w);
        stays = one > stays ? one : stays;
    }
    biased_lock_give(&all->lock);
    return stays;
}

bool wait_any_without_device(struct waits *all)
{
    const struct timespec pause = {.tv_nsec = 20 * NSEC_PER_USEC};
    uint64_t until = clock_ns() + ASK_NS;
    enum stays stays = ask_sleepers(all, true);

    while (stays == UNKNOWN && clock_ns() < until) {
        nanosleep(&pause, NULL);
        stays = ask_sleepers(all, false);
    }
    return stays != LEFT;
}

/* --- sleeping --- */

static int sleep_until(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
    struct timespec ts;
    int r;

    if (deadline != WAIT_FOREVER)
        ts = timespec_from_ns(deadline);
    api_call_rest();
    r = futex_wait_until(word, seen, deadline == WAIT_FOREVER ? NULL : &ts);
    api_call_resume();
    return r;
}

/*
 * 0, -ETIMEDOUT at the deadline, -EINTR after a signal, -EAGAIN when the time has come to ask the
 * thread's check.
 */
static int sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
    uint64_t end = interrupt_possible() ? interrupt_slice(deadline) : deadline;
    int r = sleep_until(word, seen, end);

    return r == -ETIMEDOUT && end < deadline ? -EAGAIN : r;
}

/*
 * What sleep_on() returned: is the call to end? With something to leave for, the caller holds
 * locks, and what a signal has set off can run only when it has let go of them: it comes back
 * later.
 */
static bool call_is_interrupted(int r, const struct wait *w)
{
    if (!interrupt_possible() || (r != -EINTR && r != -EAGAIN))
        return false;
    return (r == -EINTR && w->leave) || interrupt_asked(w->leave != NULL);
}

/* Only the sleeper counts: no locked instruction. */
static void count_look(struct wait *w)
{
    uint32_t looks = atomic_load_explicit(&w->looks, memory_order_relaxed);

    atomic_store_explicit(&w->looks, looks + 1, memory_order_relaxed);
}

static int wait_listed(struct waits *all, struct wait *w, struct wait_info *info,
                       wait_over_fn *over, void *object, uint64_t deadline)
{
    _Atomic uint32_t *word = w->word;
    struct thread *t = thread_self();
    uint64_t begun;
    int r = 0;

    begun = all->trace ? trace_begin(all->trace) : 0;
    add_sleeper(all, w, info);
    t->keep_events += w->keeps_event;
    for (;;) {
        uint32_t seen = atomic_load_explicit(word, memory_order_acquire);

        if (over(object, info->target))
            r = 0;
        else if (atomic_load_explicit(all->lost, memory_order_acquire))
            r = -EPIPE;
        else if (call_is_interrupted(r, w))
            r = -EINTR;
        else if (r != -ETIMEDOUT) {
            KILL_POINT(SLEEP_BEGIN);
            count_look(w);
            api_call_use_no_events(t->keep_events == 0);
            r = sleep_on(word, seen, deadline);
            api_call_use_no_events(false);
            KILL_POINT(SLEEP_END);
            continue;
        }
        break;
    }
    t->keep_events -= w->keeps_event;
    remove_sleeper(all, w);
    if (begun != 0)
        trace_event(all->trace, TRACE_WAIT, (uint8_t)w->what, begun);
    return r;
}

static int wait_until(struct waits *all, struct wait_info *info, _Atomic uint32_t *word,
                      wait_over_fn *over, void *object, uint64_t deadline)
{
    struct wait w = {.word = word};

    return wait_listed(all, &w, info, over, object, deadline);
}

static int wait_hooked(struct waits *all, struct wait *w, struct wait_info *info,
                       wait_over_fn *over, void *object, uint64_t deadline)
{
    const struct wait_hook *hook = wait_hook;
    void *begun = hook ? hook->begin(all->session) : NULL;
    int r = wait_listed(all, w, info, over, object, deadline);

    if (hook)
        hook->end(all->session, begun);
    return r;
}

static void describe_wait(struct wait_info *info, const char *function, uint32_t what,
                          uint32_t object, uint64_t target, uint64_t deadline)
{
    *info = (struct wait_info){
        .target = target,
        .thread = thread_self()->tid,
        .object = object,
        .what = what | (deadline == WAIT_FOREVER ? 0 : WAIT_TIMED),
    };
    memccpy(info->call, function, 0, sizeof(info->call) - 1);
}

static bool position_reached(struct stream_ctrl *c, uint64_t position)
{
    return atomic_load_explicit(&c->done, memory_order_acquire) >= position;
}

/*
 * seq_cst: before sleeping, and after the sleeper is listed; the other side sets, and then looks at
 * the list.
 */
static bool shall_leave(_Atomic int32_t *leave)
{
    return leave && atomic_load(leave) != 0;
}

struct position {
    struct stream_ctrl *ctrl;
    _Atomic int32_t *leave;
};

static bool given_up(const struct position *p)
{
    return atomic_load(&p->ctrl->stopped) != 0 || shall_leave(p->leave);
}

static bool position_is_over(void *object, uint64_t target)
{
    struct position *p = object;

    stream_arm(p->ctrl, target);
    return position_reached(p->ctrl, target) || given_up(p);
}

static int wait_at(struct waits *all, const char *function, struct position *p, uint64_t position,
                   uint64_t deadline, int32_t *discarded)
{
    struct wait wait = {.word = &p->ctrl->wake_seq,
                        .keeps_event = p->leave != NULL, /* a submission, maybe of an event */
                        .leave = p->leave,
                        .ctrl = p->ctrl,
                        .position = position};
    struct wait_info info;
    int r;

    if (position_reached(p->ctrl, position))
        return 0;
    if (given_up(p))
        return -ECANCELED;
    describe_wait(&info, function, WAIT_POSITION,
                  atomic_load_explicit(&p->ctrl->number, memory_order_relaxed), position, deadline);
    r = wait_hooked(all, &wait, &info, position_is_over, p, deadline);
    if (discarded)
        *discarded = wait.discarded;
    return r == 0 && !position_reached(p->ctrl, position) ? -ECANCELED : r;
}

int wait_position(struct waits *all, const char *function, struct stream_ctrl *c, uint64_t position,
                  uint64_t deadline, int32_t *discarded)
{
    struct position p = {.ctrl = c};

    if (discarded)
        *discarded = 0;
    return wait_at(all, function, &p, position, deadline, discarded);
}

int wait_position_or(struct waits *all, const char *function, struct stream_ctrl *c,
                     uint64_t position, _Atomic int32_t *leave)
{
    struct position p = {.ctrl = c, .leave = leave};

    return wait_at(all, function, &p, position, WAIT_FOREVER, NULL);
}

void wait_leave(struct waits *all, _Atomic int32_t *leave)
{
    struct wait *w;

    biased_lock_take(&all->lock);
    DL_FOREACH (all->first, w)
        if (w->leave == leave) {
            atomic_fetch_add(w->word, 1);
            futex_wake_all(w->word);
        }
    biased_lock_give(&all->lock);
}

void wait_discarded(struct waits *all, const struct stream_ctrl *ctrl, uint64_t from, uint64_t to,
                    int32_t code)
{
    struct wait *w;

    biased_lock_take(&all->lock);
    DL_FOREACH (all->first, w)
        if (w->ctrl == ctrl && w->position > from && w->position <= to)
            w->discarded = code;
    biased_lock_give(&all->lock);
}

struct pending {
    struct ipc_page *page;
    /* npud has said that it knows the opener: it will wake this process when that one leaves */
    bool known;
    const struct wait *wait;
};

static bool record_is_over(void *object, uint64_t target)
{
    const struct pending *p = object;

    return !ipc_arm(p->page, target) || (!p->known && ipc_orphaned(p->page, target)) ||
           shall_leave(p->wait->leave) || atomic_load_explicit(&p->wait->due, memory_order_relaxed);
}

int wait_record(struct waits *all, struct record_wait *w)
{
    struct wait wait = {.word = &w->page->wake_seq,
                        .slot = w->slot,
                        .keeps_event = true,
                        .keeps_slot = true,
                        .leave = w->leave,
                        .due_at = w->ask_at < w->deadline ? w->ask_at : 0};
    struct pending p = {.page = w->page, .known = w->known, .wait = &wait};
    struct wait_info info;
    int r;

    if (ipc_state_of(w->page, w->number) != IPC_PENDING)
        return 0;
    describe_wait(&info, w->function, WAIT_RECORD, w->remote, w->number, w->deadline);
    /* Reports show one wait, however often the caller asks meanwhile. */
    info.since_ns = w->since_ns;
    r = wait_hooked(all, &wait, &info, record_is_over, &p, w->deadline);
    w->since_ns = info.since_ns;
    w->slot = wait.slot;
    if (r == 0 && shall_leave(w->leave))
        return -ECANCELED;
    return r == 0 && atomic_load_explicit(&wait.due, memory_order_relaxed) ? -EAGAIN : r;
}

void wait_record_end(struct waits *all, struct record_wait *w)
{
    if (!w->slot)
        return;
    biased_lock_take(&all->lock);
    slot_put(all, w->slot);
    biased_lock_give(&all->lock);
    w->slot = NULL;
}

int wait_callback_word(struct waits *all, const char *function, uint32_t number,
                       _Atomic uint32_t *word, wait_over_fn *over, void *object, uint64_t deadline)
{
    struct wait_info info;

    describe_wait(&info, function, WAIT_CALLBACK, number, 0, deadline);
    return wait_until(all, &info, word, over, object, deadline);
}

int wait_queue(struct waits *all, const char *function, uint32_t kind, uint32_t object,
               _Atomic uint32_t *word, wait_over_fn *over, void *arg, uint64_t deadline)
{
    struct wait w = {.word = word, .fixed = true};
    struct wait_info info;

    describe_wait(&info, function, kind, object, 0, deadline);
    return wait_hooked(all, &w, &info, over, arg, deadline);
}

struct grants {
    _Atomic uint32_t *word;
    uint32_t seen;
};

static bool grants_changed(void *object, uint64_t target)
{
    const struct grants *g = object;

    (void)target;
    return atomic_load_explicit(g->word, memory_order_acquire) != g->seen;
}

int wait_grant(struct waits *all, const char *function, uint32_t id, const uint32_t *owner,
               uint32_t seen, uint64_t deadline)
{
    struct grants g = {.word = &all->page->grants, .seen = seen};
    struct wait_info info;

    describe_wait(&info, function, WAIT_GRANT, id, owner ? UINT64_C(1) + *owner : 0, deadline);
    return wait_until(all, &info, g.word, grants_changed, &g, deadline);
}
