#include "daemon/core/ipc_record.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_failures.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/shm/task.h"

/*
 * Streams that are let go in one step: at once, when a record is over, and by the job, of so many
 * records.
 */
#define FIRED_AT_ONCE   32
#define SETTLED_AT_ONCE 8

/* Any thread. Streams are left that wait for a record which is over. */
static void ask_settle(struct ipc_event *ev)
{
    if (atomic_fetch_add(&ev->asked, 1) == 0)
        job_send(&ev->settle);
}

static void fire_waiters(struct ipc_event *ev, uint64_t number, int32_t result, int32_t pid)
{
    if (!waitlist_fire_most(&ev->completed, number, number, result, pid, FIRED_AT_ONCE))
        ask_settle(ev);
}

static void wake_sleepers(struct ipc_event *ev)
{
    atomic_fetch_add_explicit(&ev->page->wake_seq, 1, memory_order_release);
    waker_wake(&ev->page->wake_seq);
}

void ipc_record_complete(struct ipc_open *open, uint64_t number)
{
    struct ipc_event *ev = open->event;
    bool waiters;

    if (!ipc_complete(ev->page, number, open->opener->slot.number, IPC_DONE, &waiters))
        return;
    if (waiters)
        wake_sleepers(ev);
    fire_waiters(ev, number, 0, 0);
}

bool ipc_record_failed(struct ipc_event *ev, uint64_t number, int32_t *pid)
{
    *pid = 0;
    return ipc_failure_find(ev, number, false, pid);
}

/* False: it is not pending, or a hostile opener has overwritten the slot. */
static bool fail_record(struct ipc_event *ev, uint64_t number, uint32_t opener, int32_t pid,
                        bool *waiters)
{
    /* Remembered before it can be seen, so that a waiter that sees IPC_FAILED finds the reason. */
    ipc_failure_remember(ev, number, pid, false);
    KILL_HERE(IPC_REMEMBERED);
    if (!ipc_complete(ev->page, number, opener, IPC_FAILED, waiters))
        return false;
    KILL_HERE(IPC_FAILED);
    fire_waiters(ev, number, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    return true;
}

/* True when the record has failed and a thread sleeps on it. */
static bool fail_own(struct ipc_open *open, uint64_t number)
{
    struct ipc_event *ev = open->event;
    uint32_t opener = open->opener->slot.number;
    uint64_t slot;
    bool waiters;

    /*
     * The ring is the client's to write: nothing is remembered of records that are not pending, or
     * another's.
     */
    if (ipc_state_of(ev->page, number) != IPC_PENDING)
        return false;
    slot = atomic_load_explicit(&ev->page->slot[number % IPC_SLOTS], memory_order_relaxed);
    return ipc_slot_opener(slot) == opener &&
           fail_record(ev, number, opener, open->session->pid, &waiters) && waiters;
}

void ipc_record_fail(struct ipc_open *open, uint64_t number)
{
    if (fail_own(open, number))
        wake_sleepers(open->event);
}

void ipc_record_drop(struct ipc_open *open, uint64_t number)
{
    struct ipc_event *ev = open->event;

    if (!fail_own(open, number) || ev->to_wake)
        return;
    ev->to_wake = true;
    LL_PREPEND2(ev->all->to_wake, ev, to_wake_next);
}

void ipc_records_wake(struct ipc_events *all)
{
    struct ipc_event *ev, *tmp;

    LL_FOREACH_SAFE2 (all->to_wake, ev, tmp, to_wake_next) {
        ev->to_wake = false;
        wake_sleepers(ev);
    }
    all->to_wake = NULL;
}

static bool is_open(const struct ipc_event *ev, uint32_t opener)
{
    return slots_get(&ev->openers, opener) != NULL;
}

/* The process that has this number, or had it last. 0: none so far. */
static int32_t opener_pid(const struct ipc_event *ev, uint32_t opener)
{
    const struct ipc_opener *o = slots_at(&ev->openers, opener);

    return o ? atomic_load_explicit(&o->pid, memory_order_relaxed) : 0;
}

bool ipc_record_over(struct ipc_event *ev, uint64_t number)
{
    uint64_t word = ipc_word_of(ev->page, number);

    if (ipc_slot_state(word) != IPC_PENDING)
        return true;
    /* As ipc_orphaned() with npud's own word in place of the page's: pairs with ipc_set_gone(). */
    atomic_thread_fence(memory_order_seq_cst);
    return !is_open(ev, ipc_slot_opener(word));
}

/* A pending record whose opener is not there: it was recorded after the end of its session. */
static void fail_if_opener_gone(struct ipc_event *ev, uint64_t number)
{
    uint64_t word = ipc_word_of(ev->page, number);
    uint32_t opener = ipc_slot_opener(word);
    bool waiters;

    if (ipc_slot_state(word) == IPC_PENDING && !is_open(ev, opener) &&
        fail_record(ev, number, opener, opener_pid(ev, opener), &waiters) && waiters)
        wake_sleepers(ev);
}

bool ipc_record_abandon(struct ipc_event *ev, uint64_t number, uint32_t opener)
{
    /* Before it can be seen, as in fail_record(). */
    bool is_new = ipc_failure_remember(ev, number, opener_pid(ev, opener), true), waiters;

    KILL_HERE(IPC_REMEMBERED);
    if (ipc_complete(ev->page, number, opener, IPC_FAILED, &waiters))
        return true;
    if (is_new)
        ipc_failure_unremember(ev, number);
    return false;
}

void ipc_records_abandoned(struct ipc_event *ev)
{
    wake_sleepers(ev);
    ask_settle(ev);
}

bool ipc_record_unsubmitted(struct ipc_event *ev, uint64_t number, int32_t *pid)
{
    return ipc_failure_find(ev, number, true, pid);
}

bool ipc_record_outcome(struct ipc_event *ev, uint64_t number, int32_t *error, int32_t *pid)
{
    enum ipc_state state;

    *error = *pid = 0;
    if (!ipc_record_over(ev, number))
        return false;
    fail_if_opener_gone(ev, number);
    state = ipc_state_of(ev->page, number);
    if (state == IPC_DONE || number == 0)
        return true;
    /* Also if npud does not remember it, and if an opener keeps writing "pending" there. */
    if (ipc_record_failed(ev, number, pid) || state != IPC_NONE)
        *error = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    return true;
}

static void note_damage(struct ipc_event *ev, uint64_t newest, int32_t pid)
{
    ev->live->damaged_by = (uint32_t)pid;
    kept_order();
    ev->live->damaged_at = newest + 1;
    kept_order();
}

static void damage_is_over(struct ipc_event *ev)
{
    ev->damaged = false;
    kept_order();
    ev->live->damaged_at = 0;
}

/*
 * Streams that wait for a record which an opener has completed in the page without telling npud go
 * on now at the latest. A hostile opener can spoil the page, but a death must not leave a stream
 * waiting. Returns true when all records that are waited for have been looked at, from *from on,
 * which then is the next one.
 */
static bool settle_some(struct ipc_event *ev, uint64_t *from)
{
    uint64_t target;
    int32_t error, pid;

    for (unsigned i = 0; i < SETTLED_AT_ONCE; i++) {
        if (!waitlist_next(&ev->completed, *from, &target))
            return true;
        if (ev->damaged) {
            error = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
            pid = ev->damaged_by;
        }
        if ((ev->damaged || ipc_record_outcome(ev, target, &error, &pid)) &&
            !waitlist_fire_most(&ev->completed, target, target, error, pid, FIRED_AT_ONCE))
            continue;
        if (target == UINT64_MAX)
            return true;
        *from = target + 1;
    }
    return false;
}

bool ipc_records_settle(struct job *settle)
{
    struct ipc_event *ev =
        (struct ipc_event *)((char *)settle - offsetof(struct ipc_event, settle));
    uint64_t asked;

    if (ev->settled_for == 0) {
        ev->settled_for = atomic_load(&ev->asked);
        ev->settle_from = 0;
    }
    if (!settle_some(ev, &ev->settle_from))
        return true;
    asked = ev->settled_for;
    ev->settled_for = 0;
    if (ev->damaged)
        damage_is_over(ev);
    /* Asked for meanwhile: what was passed then may be over now. It can be sent again from here. */
    return !atomic_compare_exchange_strong(&ev->asked, &asked, 0);
}

/*
 * Does a slot hold what no opener can have recorded in order? Number n is in slot n % IPC_SLOTS,
 * and every slot has the latest number that belongs there, up to what is recorded during this look.
 */
static bool slot_damaged(uint32_t i, uint64_t slot, uint64_t newest)
{
    int32_t age = (int32_t)((uint32_t)newest - ipc_slot_tag(slot));

    if (slot == 0)
        return newest > (i ? i : IPC_SLOTS);
    return ipc_slot_tag(slot) % IPC_SLOTS != i || age > (int32_t)IPC_SLOTS || age < -(1 << 20);
}

/* The newest number up to `newest` that belongs in slot i; 0: none was recorded there yet. */
static uint64_t number_in_slot(uint32_t i, uint64_t newest)
{
    uint64_t back = (newest - i) % IPC_SLOTS;

    return newest > back ? newest - back : 0;
}

/*
 * Pages of the file that no process has touched stay so: most events are hardly used. But a page
 * with records is looked at also if it is not resident, because then it was swapped out.
 */
static bool is_damaged(struct ipc_event *ev, uint64_t newest)
{
    unsigned char resident[sizeof(struct ipc_page) / 4096 + 1];
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);

    if (mincore(ev->page, sizeof(*ev->page), resident) < 0)
        memset(resident, 1, sizeof(resident));
    for (uint32_t i = 0; i < IPC_SLOTS; i++) {
        size_t at = offsetof(struct ipc_page, slot) + i * sizeof(ev->page->slot[0]);
        uint64_t slot = 0;

        if ((resident[at / page_size] & 1) || number_in_slot(i, newest) != 0)
            slot = atomic_load_explicit(&ev->page->slot[i], memory_order_relaxed);
        if (slot_damaged(i, slot, newest))
            return true;
    }
    return false;
}

/* Is it known how record number ended, or was its slot taken over in the way that records do? */
static bool slot_tells(uint64_t slot, uint64_t number, uint64_t newest)
{
    uint32_t ahead = ipc_slot_tag(slot) - (uint32_t)number;

    if (ahead == 0)
        return ipc_slot_state(slot) == IPC_DONE || ipc_slot_state(slot) == IPC_FAILED;
    return ahead % IPC_SLOTS == 0 && ahead <= (uint32_t)(newest - number) + (1 << 20);
}

/* True: it has failed now. What is not known of a record is taken for a failure. */
static bool fail_slot(struct ipc_event *ev, uint32_t i, uint64_t newest, int32_t pid)
{
    uint64_t slot = atomic_load_explicit(&ev->page->slot[i], memory_order_relaxed);
    uint64_t number = number_in_slot(i, newest), failed = number << 32 | IPC_FAILED;

    if (number == 0) {
        failed = (slot & ~(uint64_t)(IPC_STATE_MASK | IPC_WAITERS)) | IPC_FAILED;
        if (ipc_slot_state(slot) != IPC_PENDING)
            return false;
    } else {
        if (slot_tells(slot, number, newest))
            return false;
        ipc_failure_remember(ev, number, pid, false);
    }
    return atomic_compare_exchange_strong(&ev->page->slot[i], &slot, failed);
}

static uint32_t fail_slots(struct ipc_event *ev, uint64_t newest, int32_t pid)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < IPC_SLOTS; i++)
        n += fail_slot(ev, i, newest, pid);
    return n;
}

/*
 * A hostile opener that has damaged the page leaves. Waiters of this event may wait for a record
 * that no opener has made: no record stays pending, whichever opener it names, and all waiters go
 * on with an error. The failures are remembered, for waiters that look when the slot has been taken
 * over.
 */
static uint32_t fail_all(struct ipc_event *ev, uint64_t newest, int32_t pid)
{
    uint32_t n;

    /* First: slots that have failed do not tell any more that the page was damaged. */
    note_damage(ev, newest, pid);
    n = fail_slots(ev, newest, pid);
    if (waitlist_fire_most(&ev->completed, 0, UINT64_MAX, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid,
                           FIRED_AT_ONCE)) {
        damage_is_over(ev);
        return n;
    }
    ev->damaged = true;
    ev->damaged_by = pid;
    ev->settled_for = 0;
    ask_settle(ev);
    return n;
}

/* Those that the npud before has not let go. A stream that finds its record done goes on by it. */
static void fail_waits(const struct ipc_open *open, int32_t pid)
{
    struct stream *s;

    slots_foreach (&open->session->streams, i, s) {
        const struct task *t = &s->live->task;

        if (stream_has_read(s) && t->op == TASK_IPC_WAIT && t->object == open->slot.number &&
            t->generation == slot_generation(open) && stream_has_waited(s) &&
            !stream_is_let_go(s) && ipc_state_of(open->event->page, t->ipc.number) != IPC_DONE)
            stream_let_go(s, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    }
}

void ipc_records_finish_restoring(struct ipc_event *ev)
{
    int32_t pid = (int32_t)ev->live->damaged_by;
    struct ipc_open *open;

    if (ev->live->damaged_at == 0)
        return;
    fail_slots(ev, ev->live->damaged_at - 1, pid);
    DL_FOREACH (ev->opens, open)
        fail_waits(open, pid);
    damage_is_over(ev);
}

/*
 * Fail what the opener has recorded and no engine has executed. Its streams are gone or past, so
 * nothing of it becomes done any more. Only numbers up to the newest, read once, can be pending: an
 * event that was hardly used costs no look at all slots, and no memory for them. The same for
 * records of openers that are not there: they are late, or made up. pid: the process to blame if no
 * process had that number. Returns how many; *sleepers: a thread slept on one.
 */
static uint32_t fail_records(struct ipc_event *ev, uint64_t newest, uint32_t opener, int32_t pid,
                             bool *sleepers)
{
    uint32_t n = 0;
    bool waiters;

    for (uint64_t number = newest >= IPC_SLOTS ? newest - IPC_SLOTS + 1 : 1; number <= newest;
         number++) {
        uint64_t slot =
            atomic_load_explicit(&ev->page->slot[number % IPC_SLOTS], memory_order_relaxed);
        uint32_t owner = ipc_slot_opener(slot);
        int32_t owner_pid = opener_pid(ev, owner);

        if (ipc_slot_tag(slot) != (uint32_t)number || ipc_slot_state(slot) != IPC_PENDING ||
            (owner != opener && is_open(ev, owner)))
            continue;
        if (!fail_record(ev, number, owner, owner_pid != 0 ? owner_pid : pid, &waiters))
            continue;
        *sleepers |= waiters;
        n++;
    }
    return n;
}

/* Once more, for a number that has been set aside: no process records with it any more. */
void ipc_records_sweep(struct ipc_event *ev, struct ipc_opener *opener)
{
    uint64_t latest = atomic_load_explicit(&ev->page->latest, memory_order_acquire);
    bool sleepers = false;

    ipc_help(ev->page, latest);
    fail_records(ev, ipc_latest_number(latest), opener->slot.number,
                 atomic_load_explicit(&opener->pid, memory_order_relaxed), &sleepers);
    if (sleepers)
        wake_sleepers(ev);
}

/*
 * No waiter may be left waiting for this opener, which is leaving. Returns how many records fail.
 */
uint32_t ipc_records_fail_pending(struct ipc_event *ev, uint32_t opener, int32_t pid)
{
    uint64_t latest = atomic_load_explicit(&ev->page->latest, memory_order_acquire);
    uint64_t newest = ipc_latest_number(latest);
    bool shared = ev->opens->next != NULL, sleepers = false;
    uint64_t from = 0;
    uint32_t n;

    ipc_help(ev->page, latest);
    n = fail_records(ev, newest, opener, pid, &sleepers);
    if (shared && is_damaged(ev, newest))
        n += fail_all(ev, newest, pid);
    /*
     * Where others remain, also if no slot says that a thread sleeps: a hostile opener can clear
     * that.
     */
    if (shared || sleepers)
        wake_sleepers(ev);
    if (!settle_some(ev, &from))
        ask_settle(ev);
    return n;
}
