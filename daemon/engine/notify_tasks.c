#include "daemon/engine/notify_tasks.h"

#include <utlist.h>

#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/engine.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/run.h"

#define LOOKS_PER_STEP 32 /* at waits for a counter: others have their turn then */

/* Whose words change: the stream's engine is the caller, or is locked out. */
static unsigned engine_of(const struct stream *s)
{
    return s->attach->device->index;
}

static uint32_t value_of(const struct notify *n)
{
    return (uint32_t)notify_word(&n->live->value);
}

static bool is_looking(const struct notify *n)
{
    return notify_word(&n->live->looking) != 0;
}

/* --- state; under the lock of `waiting` --- */

/* With the other words that are to change. */
static void set_bit(struct notify *n, struct kept_words *words)
{
    struct waiter *w = notify_next_wait(n);

    kept_words_set(words, &n->live->failed_pid, 0);
    if (w)
        notify_note_over(words, stream_of_waiter(w), true, 0, 0);
    else
        kept_words_set(words, &n->live->value, 1);
    kept_words_commit(words);
    KILL_HERE(NOTIFY_RECORDED);
    if (w)
        waitlist_fire_locked(&n->waiting, w, 0, 0);
}

/* The condition of a count wait. */
static bool is_met(const struct task *t, uint32_t count)
{
    switch (t->notify.mode) {
    case ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
        return count < t->notify.value;
    case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
        return count == t->notify.value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
        return count > t->notify.value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
        return count >= t->notify.value;
    default:
        return (count & t->notify.value) == t->notify.value;
    }
}

static uint32_t changed_count(const struct task *t, uint32_t count)
{
    switch (t->notify.mode) {
    case ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
        return t->notify.value;
    case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
        return count + t->notify.value;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
        return count | t->notify.value;
    default:
        return count & t->notify.value;
    }
}

/*
 * The wait sees the counter. Returns where the look goes on. After a clear, those that were passed
 * over have another counter to look at: once, since it stays 0.
 */
static void look_at(struct notify *n, struct waiter *w, unsigned who)
{
    const struct task *t = &stream_of_waiter(w)->live->task;
    struct kept_words words;
    bool clears;

    if (!is_met(t, value_of(n))) {
        notify_set_word(&n->live->look_from, w->target + 1);
        return;
    }
    clears = t->notify.clear && value_of(n) != 0;
    kept_words_begin(&words, who);
    notify_note_over(&words, stream_of_waiter(w), false, 0, 0);
    kept_words_set(&words, &n->live->look_from, clears ? 0 : w->target + 1);
    if (clears)
        kept_words_set(&words, &n->live->value, 0);
    kept_words_commit(&words);
    KILL_HERE(NOTIFY_LOOKED);
    waitlist_fire_locked(&n->waiting, w, 0, 0);
}

/*
 * At some waits, in the order in which they came, each with the counter that those before it have
 * left.
 */
static void look_at_waits(struct notify *n, unsigned who)
{
    struct waiter *w;

    for (unsigned i = 0; i < LOOKS_PER_STEP; i++) {
        w = waitlist_first_locked(&n->waiting, notify_word(&n->live->look_from));
        if (!w) {
            notify_set_word(&n->live->looking, 0);
            return;
        }
        look_at(n, w, who);
    }
}

/* The stream is to go on until all waits have been looked at. With other words that change. */
static void set_count(struct stream *s, struct notify *n, uint32_t value, struct kept_words *words)
{
    uint64_t change = notify_word(&n->live->changes) + 1;

    kept_words_set(words, &n->live->value, value);
    kept_words_set(words, &n->live->changes, change);
    kept_words_set(words, &n->live->look_from, 0);
    kept_words_set(words, &n->live->looking, 1);
    notify_note_effect(words, s, change);
    kept_words_commit(words);
    KILL_HERE(NOTIFY_RECORDED);
    look_at_waits(n, engine_of(s));
    s->count_change = is_looking(n) ? change : 0;
    KILL_HERE(COUNT_LOOKED);
}

/* True: the wait is over at once. */
static bool take_count(struct notify *n, struct stream *s, struct kept_words *words)
{
    const struct task *t = &s->live->task;

    /* Those that wait already come first. */
    if (is_looking(n) || !is_met(t, value_of(n)))
        return false;
    notify_note_over(words, s, false, 0, 0);
    if (t->notify.clear && value_of(n) != 0)
        set_count(s, n, 0, words);
    return true;
}

/*
 * True: the wait is over at once. *failed: notify_failed_by() the process with whose dropped record
 * it fails; 0: it has not failed.
 */
static bool take_now(struct notify *n, struct stream *s, uint64_t *failed)
{
    struct kept_words words;
    bool over;

    *failed = 0;
    kept_words_begin(&words, engine_of(s));
    if (n->counts) {
        over = take_count(n, s, &words);
    } else {
        bool bit = value_of(n) != 0;

        if (!bit)
            *failed = notify_word(&n->live->failed_pid);
        over = bit || *failed != 0;
        if (over) {
            notify_note_over(&words, s, bit, *failed ? ACL_ERROR_RT_SUSPECT_REMOTE_ERROR : 0,
                             (int32_t)*failed);
            kept_words_set(&words, &n->live->failed_pid, 0);
            kept_words_set(&words, &n->live->value, 0);
        }
    }
    kept_words_commit(&words);
    KILL_HERE(NOTIFY_TAKEN);
    return over;
}

/* --- tasks --- */

void notify_give_back(struct stream *s)
{
    struct notify *n = notify_of_task(s->session, &s->live->task, false);
    struct kept_words words;

    kept_words_begin(&words, engine_of(s));
    notify_note_given_back(&words, s);
    if (!n) {
        kept_words_commit(&words);
        return;
    }
    waitlist_lock(&n->waiting);
    set_bit(n, &words);
    waitlist_unlock(&n->waiting);
}

/*
 * The client may destroy a notify while tasks that use it are queued: a record does nothing then, a
 * wait fails.
 */
enum run_result notify_run_record(struct stream *s, uint64_t now)
{
    struct notify *n = notify_of_task(s->session, &s->live->task, false);
    struct kept_words words;

    (void)now;
    if (!n || notify_has_effect(s)) /* the npud before has made it, and not retired the task */
        return RUN_RETIRED;
    stream_publish_before(s);
    kept_words_begin(&words, engine_of(s));
    notify_note_effect(&words, s, 0);
    waitlist_lock(&n->waiting);
    set_bit(n, &words);
    waitlist_unlock(&n->waiting);
    return RUN_RETIRED;
}

bool notify_count_tell(struct stream *s)
{
    struct notify *n;
    bool over;

    if (s->count_change == 0)
        return true;
    n = notify_of_task(s->session, &s->live->task, true);
    if (!n) {
        s->count_change = 0;
        return true;
    }
    waitlist_lock(&n->waiting);
    if (is_looking(n) &&
        (s->count_change == COUNT_TURN || s->count_change == notify_word(&n->live->changes)))
        look_at_waits(n, engine_of(s));
    if (s->count_change == COUNT_TURN) {
        over = !is_looking(n);
    } else {
        over = !is_looking(n) || s->count_change != notify_word(&n->live->changes);
        s->count_change = over ? 0 : s->count_change;
    }
    waitlist_unlock(&n->waiting);
    return over;
}

bool notify_count_give_up(struct stream *s)
{
    if (s->count_change == COUNT_TURN) {
        s->count_change = 0;
        notify_drop_task(s, s->live->position, &s->live->task, engine_of(s));
    }
    return notify_count_tell(s);
}

/* Control thread. */
static bool run_look(struct job *job)
{
    struct notify *n = (struct notify *)((char *)job - offsetof(struct notify, look));
    bool more;

    waitlist_lock(&n->waiting);
    if (is_looking(n))
        look_at_waits(n, KEPT_CONTROL);
    more = is_looking(n);
    waitlist_unlock(&n->waiting);
    return more;
}

/* No other session has a counter: so the job is this session's. */
static void list_look(struct notify *n, struct session *session)
{
    if (n->look.listed)
        return;
    n->look = (struct job){run_look, "count notify record", &session->owner};
    job_list(&n->look);
}

void notify_count_drop(struct stream *s)
{
    if (notify_count_give_up(s))
        return;
    s->count_change = 0;
    list_look(notify_of_task(s->session, &s->live->task, true), s->session);
}

enum run_result notify_run_count_record(struct stream *s, uint64_t now)
{
    struct notify *n = notify_of_task(s->session, &s->live->task, true);

    struct kept_words words;

    (void)now;
    if (notify_has_effect(s))
        return RUN_RETIRED;
    s->count_change = 0;
    if (s->live->task.notify.mode > ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE ||
        s->live->task.notify.mode == 3)
        return run_bad_entry(s, "no such mode");
    if (!n)
        return RUN_RETIRED;
    stream_publish_before(s);
    kept_words_begin(&words, engine_of(s));
    waitlist_lock(&n->waiting);
    if (is_looking(n))
        s->count_change = COUNT_TURN;
    else
        set_count(s, n, changed_count(&s->live->task, value_of(n)), &words);
    waitlist_unlock(&n->waiting);
    return s->count_change == 0 ? RUN_RETIRED : RUN_AGAIN;
}

/* Its place among those that wait, which it has also in the npud after this one. */
static uint64_t arrival_of(const struct stream *s, struct notify *n)
{
    uint64_t arrival = notify_word(&n->live->arrivals);

    if (stream_has_waited(s))
        return s->live->target;
    notify_set_word(&n->live->arrivals, arrival + 1);
    KILL_HERE(WAIT_COUNTED);
    return arrival;
}

static void join_waits(struct stream *s, struct notify *n, uint64_t arrival)
{
    s->waiter = (struct waiter){.fire = run_fire_stream};
    s->waiting_on = &n->waiting;
    waitlist_add_locked(&n->waiting, &s->waiter, arrival);
}

/* As run_park() does, but that test and change are one step. */
static enum run_result wait_for(struct stream *s, struct notify *n, uint64_t now)
{
    uint64_t arrival, deadline, failed;
    bool over, fails = false;

    waitlist_lock(&n->waiting);
    arrival = arrival_of(s, n);
    deadline = run_note_wait(s, arrival, s->live->task.notify.timeout_ns, now);
    over = take_now(n, s, &failed);
    if (!over) {
        fails = deadline != 0 && engine_set_timer(s, deadline) < 0;
        if (!fails)
            join_waits(s, n, arrival);
    }
    waitlist_unlock(&n->waiting);
    KILL_HERE(WAIT_PARKED);
    if (fails)
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    if (!over)
        return RUN_WAITS;
    if (failed != 0)
        return run_fail(s, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, (int32_t)failed);
    /* It was on no list, and run_finish_wait() looks when its change of the counter is told. */
    s->waiter.result = 0;
    return s->count_change == 0 ? RUN_RETIRED : RUN_AGAIN;
}

static enum run_result run_wait(struct stream *s, uint64_t now, bool counts)
{
    struct notify *n;

    if (stream_has_begun(s))
        return run_finish_wait(s);
    if (!run_valid_timeout(s->live->task.notify.timeout_ns))
        return run_bad_entry(s, "impossible time limit");
    n = notify_of_task(s->session, &s->live->task, counts);
    if (n)
        return wait_for(s, n, now);
    return run_fail(s, ACL_ERROR_RT_INVALID_HANDLE, 0);
}

enum run_result notify_run_wait(struct stream *s, uint64_t now)
{
    return run_wait(s, now, false);
}

enum run_result notify_run_count_wait(struct stream *s, uint64_t now)
{
    if (s->live->task.notify.mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE)
        return run_bad_entry(s, "no such mode");
    return run_wait(s, now, true);
}

/* --- again --- */

/* The look that the change of the current task has begun. */
static void restore_look(struct stream *s, const struct notify *n)
{
    if (notify_has_effect(s) && is_looking(n) && s->live->effect == notify_word(&n->live->changes))
        s->count_change = s->live->effect;
}

/* npud has ended when the wait had come, and before it was over or on the list. */
static bool is_over(const struct stream *s, const struct notify *n)
{
    if (n->counts)
        return !is_looking(n) && is_met(&s->live->task, value_of(n));
    /* One that is to fail, on the list: core/notify.c */
    if (s->live->target < notify_word(&n->live->deserted_before))
        return false;
    return value_of(n) != 0 || notify_word(&n->live->failed_pid) != 0;
}

/*
 * On the list before any engine runs: the next record is for the wait that came first, and not for
 * the one whose engine is the first to come to it.
 */
static bool wait_again(struct stream *s, struct notify *n)
{
    uint64_t deadline = s->live->deadline;

    if (deadline != 0 && engine_set_timer(s, deadline) < 0)
        return false;
    join_waits(s, n, s->live->target);
    s->run = RUN_PARKED;
    stream_begin_task(s);
    return true;
}

static bool rejoin(struct stream *s, struct notify *n)
{
    return run_waits_still(s) && !is_over(s, n) && wait_again(s, n);
}

bool notify_rejoin_wait(struct stream *s)
{
    struct notify *n = notify_of_task(s->session, &s->live->task, false);

    return n && rejoin(s, n);
}

bool notify_rejoin_count_wait(struct stream *s)
{
    struct notify *n = notify_of_task(s->session, &s->live->task, true);

    if (!n)
        return false;
    restore_look(s, n);
    return rejoin(s, n);
}

/* It has changed the counter, or has waited for its turn. */
bool notify_rejoin_count_record(struct stream *s)
{
    struct notify *n = notify_of_task(s->session, &s->live->task, true);

    if (!n)
        return false;
    restore_look(s, n);
    if (!notify_has_effect(s) && stream_has_begun(s))
        s->count_change = COUNT_TURN;
    return false;
}

void notifies_look_again(struct server *server)
{
    struct notify_open *open;
    struct session *session;

    DL_FOREACH (server->sessions, session)
        slots_foreach (&session->notifies, i, open)
            if (open->notify->counts && is_looking(open->notify))
                list_look(open->notify, session);
}
